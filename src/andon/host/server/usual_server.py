"""Where commands look for this machine's server: the usual port, or that of ANDON_PORT."""

import os

from andon.core.settings.usual_port import PORT_VARIABLE, USUAL_PORT
from andon.errors import Invalid

_HIGHEST_PORT = 65535


def usual_port() -> int:
    given = os.environ.get(PORT_VARIABLE, "").strip()
    if not given:
        return USUAL_PORT
    if not (given.isascii() and given.isdecimal()) or not 0 < int(given[:6]) <= _HIGHEST_PORT:
        raise Invalid(f"{PORT_VARIABLE} is {given[:40]!r}, not a port", hint="1 to 65535")
    return int(given)


def usual_url() -> str:
    return f"http://127.0.0.1:{usual_port()}"
