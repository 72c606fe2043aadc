"""Explains why a host gives no answer, from the output of ssh and its shell; pure."""

from collections.abc import Mapping, Sequence

from andon.errors import AndonError, Conflict, Denied, Gone, Invalid, Unavailable
from andon.model.vendors import VENDORS
from andon.units import plain, sh

ANDON, SMI = "andon", "nvidia-smi"
"""Who answers on a host."""
LONGEST_MESSAGE = 200
_REFUSED = "Permission denied ("
_KNOWN: Sequence[tuple[Sequence[str], str, str]] = (
    (("REMOTE HOST IDENTIFICATION HAS CHANGED",), "its host key has changed",
     "if that is expected: ssh-keygen -R {host}"),
    (("Host key verification failed",), "its host key is not known here", "once: ssh {host}"),
    ((_REFUSED, "Too many authentication failures"), "permission denied",
     "no password is asked for: try ssh {host}"),
    (("Could not resolve hostname",), "no such name", "see ~/.ssh/config"),
    (("Connection refused",), "connection refused", "is sshd running there?"),
    (("timed out",), "connection timed out after {seconds:g} s", "is it switched on?"),
    (("No route to host", "Network is unreachable"), "no way to it", "check the network"),
    (("Connection closed", "Connection reset", "Broken pipe", "closed by remote host"),
     "the connection was lost", ""),
)  # fmt: skip
"""What ssh prints, our message for it, and what to do."""
_KINDS: Mapping[int, type[AndonError]] = {
    kind.exit_code: kind for kind in (Denied, Gone, Invalid, Conflict, Unavailable)
}
UNEXPECTED = (
    AndonError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError
)  # fmt: skip
"""Unexpected errors that an answer may cause: they must affect only this host."""
NO_ANDON = "pip install andon there, or set ssh.andon to its path"
_NO_ANDON = {
    **{one.name: f"its {one.title} GPUs need andon there" for one in VENDORS},
    "nothing": "no andon and no nvidia-smi there",
}


class NotConnected(Unavailable):
    """The host was not reached, so nothing was asked there."""


def not_connected(host: str, code: int, out: bytes, printed: bytes, seconds: float) -> NotConnected:
    """Returns the failure of an ssh that ended before the script began."""
    text, named = printed.decode(errors="replace"), sh(host)
    for signs, message, hint in _KNOWN:
        if any(sign in text for sign in signs):
            reason = _with(message.format(seconds=seconds), text)
            return NotConnected(reason, hint=hint.format(host=named), cause="ssh")
    if code == 255:
        return NotConnected(_with("ssh failed", text), hint=f"try ssh {named}", cause="ssh")
    shown = text if text.strip() else out.decode(errors="replace")
    return NotConnected(_with("no shell there", shown), hint=f"try ssh {named}", cause="ssh")


def lost_midway(printed: bytes) -> Unavailable:
    message = "the connection was lost before the answer was complete"
    return Unavailable(_with(message, printed.decode(errors="replace")), cause="ssh")


def without_andon(kind: str) -> Unavailable:
    return Unavailable(_NO_ANDON.get(kind, _NO_ANDON["nothing"]), hint=NO_ANDON, cause="ssh")


def only_smi() -> Unavailable:
    return Unavailable("only nvidia-smi there, which does not know it", hint=NO_ANDON)


def far_failure(code: int, printed: str) -> AndonError:
    """Returns the error of an andon that failed on the host, as an error of the same kind."""
    lines = [line.removeprefix("andon: ") for line in printed.splitlines() if line.strip()]
    ours = [line for line in printed.splitlines() if line.startswith("andon: ")]
    message = ours[-1].removeprefix("andon: ") if ours else (lines[-1] if lines else "")
    hints = [line.removeprefix("hint: ") for line in lines if line.startswith("hint: ")]
    reason = plain(message, LONGEST_MESSAGE) or f"it ended with exit code {code}"
    hint = plain(hints[-1], LONGEST_MESSAGE) if hints else ""
    kind = _KINDS.get(code)
    if kind is not None:  # it can answer, but not this
        return kind(reason, hint=hint)
    return Unavailable(f"andon there fails: {reason}", hint=hint, cause="ssh")


def unexpected(exc: Exception) -> AndonError:
    """Returns an unexpected failure of one host as an error that can be shown."""
    if isinstance(exc, AndonError):
        return exc
    message = plain(f"{type(exc).__name__}: {exc}", LONGEST_MESSAGE)
    return Unavailable(f"its answer cannot be read: {message}", hint="report it", cause="ssh")


def _with(message: str, text: str) -> str:
    """Returns our message with the last line that ssh printed, unless that is a frame."""
    lines = [line.strip() for line in text.splitlines() if line.strip(" @\r\n")]
    return f"{message} ({plain(lines[-1], LONGEST_MESSAGE)})" if lines else message
