"""Calls of a worker whose processes run on the CPUs next to its devices."""

from collections.abc import Callable

from msgspec import Struct

from andon.host.topology import on_cpus
from andon.model.naming import title
from andon.runs.record import RunRecorder
from andon.work.cpu_binding import bound_line, bound_to
from andon.work.map.calls import CallEnd, Caller
from andon.work.map.places import WorkPlace
from andon.work.rules.map.plan import MapUnit


class BoundCaller(Struct, frozen=True):
    """What a call starts inherits the CPUs of the worker's thread."""

    caller: Caller
    cpus: frozenset[int]

    def call(self, unit: MapUnit) -> CallEnd:
        with on_cpus(self.cpus):
            return self.caller.call(unit)

    def end(self, number: int) -> None:
        self.caller.end(number)

    def close(self) -> None:
        self.caller.close()


def bound_caller(
    caller: Caller, place: WorkPlace, recorder: RunRecorder, notify: Callable[[str], None]
) -> Caller:
    """Bound as far as the CPUs are known; the record and one line say which, or why not."""
    own = {device.uuid for device in place.devices}
    statuses = () if place.snapshot is None else place.snapshot.devices
    bound = bound_to([one.device for one in statuses if one.device.uuid in own])
    recorder.write(bound_line(bound, place.label))
    notify(f"{title(place.label)}: {bound.words}")
    return caller if bound.cpus is None else BoundCaller(caller, bound.cpus)
