"""What devices report on their own, and the processes that are concerned.

The types of fields are strings until they are needed: evaluating them takes longer than the rest of
the module, and only reading other programs' JSON needs them.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from andon.model.codec import Name, Pid, Text, Time, Whole

MOST_PIDS = 4096


class EventKind(StrEnum):
    """Events that a driver or the kernel reports on its own."""

    XID = "xid"
    ECC = "ecc"
    RESET = "reset"  # the driver resets the device, as AMD's does when it hangs


class Party(Struct, frozen=True):
    """A process that an alert concerns, as far as it may be shown."""

    pid: Pid
    user: Name | None = None
    name: Name | None = None
    command: Text | None = None
    started: Time | None = None
    job: Name | None = None  # its job or unit, such as `slurm:42.0`


class Event(Struct, frozen=True):
    """An event that a device reported."""

    kind: EventKind
    uuid: Name | None  # None if the report names no known device
    at: Time
    code: Whole | None = None  # the Xid; for a failed reset, the error code
    detail: Text = ""
    source: Name = ""  # "nvml", "kernel log" or "sim"
    pids: Annotated[tuple[Pid, ...], Meta(max_length=MOST_PIDS)] = ()  # named in the report itself
    who: tuple[Party, ...] = ()  # what ran on the device when it happened
    pci: Name | None = None  # as written in the report, if it has no uuid
