"""What the variables of a service manager (systemd) mean for a process."""

from collections.abc import Mapping

VARIABLES = (
    "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_PID", "LISTEN_FDS",
    "LISTEN_FDNAMES",
)  # fmt: skip
FIRST_SOCKET = 3
MOST_SOCKETS = 16


def notify_address(given: Mapping[str, str]) -> str | None:
    """Returns the address of the socket to notify; None if there is none."""
    found = given.get("NOTIFY_SOCKET", "")
    if found.startswith("@"):
        return "\0" + found[1:]
    return found if found.startswith("/") else None


def watchdog_seconds(given: Mapping[str, str], pid: int) -> float | None:
    """Returns within which time this process must say that it works; None if nobody asks."""
    micros = _number(given.get("WATCHDOG_USEC"))
    if not micros or _number(given.get("WATCHDOG_PID", str(pid))) != pid:
        return None
    return micros / 1e6


def given_sockets(given: Mapping[str, str], pid: int) -> tuple[int, ...]:
    """Returns the descriptors of sockets that were opened for this process."""
    count = _number(given.get("LISTEN_FDS"))
    if not count or _number(given.get("LISTEN_PID")) != pid:
        return ()
    return tuple(range(FIRST_SOCKET, FIRST_SOCKET + min(count, MOST_SOCKETS)))


def _number(text: str | None) -> int | None:
    is_short = text is not None and len(text) <= 18 and text.isascii() and text.isdigit()
    return int(text) if is_short and text is not None else None


LONGEST_TURN_SECONDS = 90.0
"""A sampler that works longer on one sample hangs: a reader may take 20 s to start, and 60 s more
where it gets no processor. A driver that hangs makes no sample late: its reader does not answer."""


def is_working(turn_seconds: float, runs: bool) -> bool:
    """Whether the watchdog may be told so: the sampler's loop runs, and is not stuck."""
    return runs and turn_seconds < LONGEST_TURN_SECONDS
