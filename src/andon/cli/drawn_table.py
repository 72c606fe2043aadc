"""`andon` and `andon status` with a table that this machine's server has drawn: nothing else is
loaded for them, because importing the rest takes longer than the answer.

Wherever the command itself could print something else, the result is None and the command goes
the ordinary way, on which it asks the same server for its readings (`node/look.py`).
"""

import os
import sys
import time

from andon.access.look import asking_name, is_trusted, look_names, read_drawn
from andon.cli.screen import in_color, is_terminal, size
from andon.host.socket_peers import code_stamp, connect, peer_uid, surroundings

PORT_VARIABLE, USUAL_PORT = "ANDON_PORT", 26366  # as in settings/table.py, which imports more
SYSTEM_UIDS = 1000  # as in host/port_listeners.py
TIMEOUT_SECONDS = 0.5
MOST_BYTES = 4 << 20
PIECE_BYTES = 1 << 16
COMPARED = (PORT_VARIABLE, "ANDON_LEASE_DIR")
"""Variables of ours with which the server can draw; any other may be a setting."""
MACHINE_IDS = ("etc/machine-id", "var/lib/dbus/machine-id")
ID_BYTES, KEY_LETTERS, HEX = 32, 12, b"0123456789abcdef"


def print_drawn(bare: bool, timeout_seconds: float = TIMEOUT_SECONDS) -> int | None:
    """Prints the table for `andon` (`bare`) or `andon status`; returns the exit code, or None if
    nothing was printed."""
    try:
        drawn = _drawn(bare, timeout_seconds) if _is_plain() else None
    except (OSError, ValueError):
        return None
    if drawn is None:
        return None
    code, text = drawn
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        return _report(error)
    return code


def _report(error: OSError) -> int:
    from andon.cli.terminal import failed_write, guarded

    def fail() -> int:
        failed_write(sys.stdout, error)
        return 0

    return guarded(fail)


def _is_plain() -> bool:
    """Whether this user has no settings, and standard output takes any text."""
    if sys.platform != "linux" or (sys.stdout.encoding or "").lower() != "utf-8":
        return False
    for name in os.environ:
        if name.startswith("ANDON_") and name not in COMPARED:
            return False
    own = os.environ.get("XDG_CONFIG_HOME") or _home(".config")
    files = ((f"{own}/andon/andon.toml", os.F_OK), ("/etc/andon/andon.toml", os.R_OK))
    return own.startswith("/") and not any(os.access(*file) for file in files)


def _drawn(bare: bool, timeout_seconds: float) -> tuple[int, str] | None:
    """Returns exit code and table by the first server that answers and is trusted."""
    deadline = time.monotonic() + timeout_seconds
    with open("/proc/net/unix", "rb") as file:  # noqa: PTH123 - without pathlib
        table = file.read(MOST_BYTES)
    here = surroundings(code_stamp())
    for port in dict.fromkeys((_own_port(), _usual_port())):
        for name in () if port is None else look_names(table, port):
            try:
                answer = _answer(name, bare, deadline)
            except OSError:
                continue
            if answer is not None:
                return read_drawn(answer, here, os.environ)
    return None


def _answer(name: str, bare: bool, deadline: float) -> bytes | None:
    """Returns what a trusted listener sends; None from any other."""
    color, live = in_color("auto", sys.stdout), is_terminal(sys.stdout)
    asking = asking_name(size()[0], color, live, bare, os.urandom(8).hex())
    connection = connect(name, max(0.01, deadline - time.monotonic()), asking)
    try:
        if not is_trusted(peer_uid(connection), os.geteuid(), SYSTEM_UIDS):
            return None
        found = b""
        while piece := connection.recv(PIECE_BYTES):
            found += piece
            if len(found) > MOST_BYTES or time.monotonic() > deadline:
                raise ValueError("too much, or too late")
        return found
    finally:
        connection.close()


def _usual_port() -> int:
    return int(os.environ.get(PORT_VARIABLE, "").strip() or USUAL_PORT)


def _own_port() -> int | None:
    """Returns the port of this user's server, which has written it; None if there is no such
    file. Raises OSError or ValueError if it may not be believed."""
    state = os.environ.get("XDG_STATE_HOME") or _home(".local/state")
    if not state.startswith("/"):
        raise ValueError(state)
    nodes = f"{state}/andon/nodes"
    folder = f"{nodes}/{_node_key()}"
    try:
        with open(f"{folder}/server.json", "rb") as file:  # noqa: PTH123
            said = file.read(MOST_BYTES)
    except FileNotFoundError:
        return None
    for path in (folder, nodes, f"{state}/andon"):
        found = os.stat(path)  # noqa: PTH116
        if found.st_uid != os.geteuid() or found.st_mode & 0o022:
            raise ValueError(path)
    url = said.partition(b'"url": "')[2].partition(b'"')[0]
    return int(url.rpartition(b":")[2])


def _home(below: str) -> str:
    home = os.environ.get("HOME")
    return f"{home}/{below}" if home else ""


def _node_key(root: str = "/") -> str:
    """Returns the name of this machine's folder, as `machine_id.node_key` does."""
    for name in MACHINE_IDS:
        try:
            with open(f"{root}{name}", "rb") as file:  # noqa: PTH123
                found = file.read(MOST_BYTES).strip()
        except FileNotFoundError:
            continue
        if len(found) == ID_BYTES and found.strip(b"0") and not found.strip(HEX):
            return found[:KEY_LETTERS].decode()
    if not (name := os.uname().nodename).isprintable():
        raise ValueError(name)
    import hashlib  # most machines have an id

    return hashlib.sha256(name.encode()).hexdigest()[:KEY_LETTERS]
