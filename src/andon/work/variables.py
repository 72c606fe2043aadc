"""Variables that every command gets unless they are set: a port of its own, output at once."""

import socket
from collections.abc import Mapping
from contextlib import suppress

PORTS = ("MASTER_PORT", "PET_MASTER_PORT")
"""Where the ranks of one training meet; PET_MASTER_PORT is torchrun's."""
UNBUFFERED = "PYTHONUNBUFFERED"


def defaults(variables: Mapping[str, str], port: int | None) -> dict[str, str]:
    """What is missing in `variables`; two trainings on one node must not share a port."""
    wanted = {UNBUFFERED: "1"}
    if port is not None and not any(name in variables for name in PORTS):
        wanted |= dict.fromkeys(PORTS, str(port))
    return {name: value for name, value in wanted.items() if name not in variables}


def free_port(taken: frozenset[int] = frozenset()) -> int | None:
    """A port that no one listens on now, and none of `taken`; None where none can be found."""
    for _ in range(20):
        with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.bind(("127.0.0.1", 0))
            port: int = probe.getsockname()[1]
            if port not in taken:
                return port
    return None
