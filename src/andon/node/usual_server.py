"""Where this machine's server may be: the port that this user's server has written to its file, and
the usual port, or that of ANDON_PORT."""

import os

import msgspec

from andon.errors import Invalid
from andon.host.files import read_regular
from andon.host.port_listeners import is_accepting
from andon.host.state.user_folder import SERVER_FILE, is_own, node_path
from andon.settings.table import PORT_VARIABLE, USUAL_PORT

_HIGHEST_PORT = 65535
_MOST_BYTES = 4096


def usual_port() -> int:
    given = os.environ.get(PORT_VARIABLE, "").strip()
    if not given:
        return USUAL_PORT
    if not (given.isascii() and given.isdecimal()) or not 0 < int(given[:6]) <= _HIGHEST_PORT:
        raise Invalid(f"{PORT_VARIABLE} is {given[:40]!r}, not a port", hint="1 to 65535")
    return int(given)


def usual_url() -> str:
    return f"http://127.0.0.1:{usual_port()}"


def own_port() -> int | None:
    """Returns the port that this user's server has written; who listens there is not checked."""
    folder = node_path()
    try:
        if not is_own(folder):
            return None
        announced = msgspec.json.decode(read_regular(folder / SERVER_FILE, _MOST_BYTES))
        port = str(announced["url"]).rpartition(":")[2]
        return int(port) if port.isdecimal() and len(port) <= 5 else None
    except (OSError, ValueError, LookupError, TypeError):
        return None


def may_be_running(port: int | None = None) -> bool:
    """Whether a server may be running: this user's wrote its address, or someone listens on the
    usual port. If not, commands make no request and import nothing for one."""
    written = os.access(node_path() / SERVER_FILE, os.F_OK)  # False where this user may not look
    return written or is_accepting(usual_port() if port is None else port)
