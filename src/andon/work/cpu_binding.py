"""Which CPUs a command is bound to here, and the line of its record that says so."""

import time
from collections.abc import Sequence

from andon.host.topology import allowed_cpus
from andon.model.device import Device
from andon.model.place import cpu_words
from andon.model.run.record import RunEvent
from andon.work.rules.binding import CpuBinding, binding


def bound_to(devices: Sequence[Device]) -> CpuBinding:
    """The CPUs next to these devices that this process may use."""
    return binding(devices, allowed_cpus())


def bound_line(bound: CpuBinding, devices: str | None = None) -> RunEvent:
    """`devices` names those of one worker, where a run has several."""
    cpus = None if bound.cpus is None else cpu_words(bound.cpus)
    data = {"cpus": cpus, "reason": bound.words}
    return RunEvent(time.time(), "bind", data if devices is None else {**data, "devices": devices})
