"""Prepares a command: whether it can be started, its variables, and the CPUs it is bound to."""

import os
import re
import shutil
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType

from andon.errors import AndonError
from andon.host.topology import allowed_cpus
from andon.leases.placement import Placement
from andon.model.device import Device
from andon.model.place import cpu_list
from andon.model.run.record import RunEvent
from andon.units import sh
from andon.work.rules.binding import CpuBinding, binding

# Whether a command can be started at all, checked before anything is claimed for it.

NOT_EXECUTABLE, NOT_FOUND = 126, 127
_VARIABLE = re.compile(r"[A-Za-z_]\w*=")


class CannotStart(AndonError):
    """The command was not found or is not executable; `code` is what a shell returns for that."""

    def __init__(self, reason: str, code: int, hint: str = "") -> None:
        super().__init__(reason, hint)
        self.code = code


def find(command: Sequence[str]) -> str:
    """Returns the program's path; raises CannotStart before anything is claimed for it."""
    name = command[0]
    found = shutil.which(name)
    if found is not None:
        return found
    path = os.path.realpath(name) if os.sep in name else shutil.which(name, os.F_OK)
    if path is None or not os.path.exists(path):  # noqa: PTH110 - a name may hold anything
        raise CannotStart(f"{name or repr(name)}: command not found", NOT_FOUND, hint=_meant(name))
    if os.path.isdir(path):  # noqa: PTH112
        raise CannotStart(f"{name}: is a directory", NOT_EXECUTABLE)
    raise CannotStart(f"{name}: not executable", NOT_EXECUTABLE, hint=f"chmod +x {sh(name)}")


def _meant(name: str) -> str:
    """Returns a suggestion for a command that does not exist; empty if there is none."""
    if name.replace(":", "").isdecimal():
        return f"to name a GPU: -d {name}"
    if _VARIABLE.match(name):
        return f"to set a variable: env {sh(name)} COMMAND"
    return "write its words without quotes, or: sh -c 'LINE'" if " " in name else ""


def shell() -> list[str]:
    """Returns the user's shell."""
    return [os.environ.get("SHELL") or "/bin/sh"]


# Variables that every command gets unless they are set: a port of its own, output at once.

PORTS = ("MASTER_PORT", "PET_MASTER_PORT")
"""Where the ranks of one training meet; PET_MASTER_PORT is torchrun's."""
UNBUFFERED = "PYTHONUNBUFFERED"


def defaults(variables: Mapping[str, str], port: int | None) -> dict[str, str]:
    """Returns variables to add: unbuffered output, and a port that differs between trainings."""
    wanted = {UNBUFFERED: "1"}
    if port is not None and not any(name in variables for name in PORTS):
        wanted |= dict.fromkeys(PORTS, str(port))
    return {name: value for name, value in wanted.items() if name not in variables}


def environment_of(
    variables: Mapping[str, str],
    place: Placement,
    more: Mapping[str, str] = MappingProxyType({}),
    port: int | None = None,
) -> dict[str, str]:
    """Returns a process's environment: these variables, missing defaults, the devices of its place,
    and `more`, such as its run."""
    return {**variables, **defaults(variables, port), **place.environment, **more}


def free_port(taken: frozenset[int] = frozenset()) -> int | None:
    """Returns a port that no one listens on now, and none of `taken`; None if none can be found."""
    for _ in range(20):
        with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.bind(("127.0.0.1", 0))
            port: int = probe.getsockname()[1]
            if port not in taken:
                return port
    return None


# Which CPUs a command is bound to here, and the line of its record that says so.


def bound_to(devices: Sequence[Device]) -> CpuBinding:
    """Returns the CPUs next to these devices that this process may use."""
    return binding(devices, allowed_cpus())


def bound_line(bound: CpuBinding, devices: str | None = None) -> RunEvent:
    """Returns the record's line about CPUs; `devices` are one worker's, if a run has several."""
    cpus = None if bound.cpus is None else cpu_list(bound.cpus)
    data = {"cpus": cpus, "reason": bound.reason}
    return RunEvent(time.time(), "bind", data if devices is None else {**data, "devices": devices})
