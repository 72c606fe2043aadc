"""The command of a map: started for each item, or a worker that stays; here or in containers."""

import os
from collections.abc import Callable, Sequence

from msgspec import Struct

from andon.leases.placement import Placement
from andon.runs.record import RunRecorder
from andon.runs.rules.ranks import run_variables
from andon.work.map.calls import Caller, CommandCaller, ItemLimits
from andon.work.map.contained_calls import MapContainers
from andon.work.map.worker_calls import WorkerCaller
from andon.work.preparing import bound_line, bound_to, defaults, free_port
from andon.work.rules.map.plan import MapUnit
from andon.work.rules.map.template import CommandTemplate


class MapCommand(Struct, frozen=True):
    """Makes the callers of a map's workers."""

    template: CommandTemplate
    grace_seconds: float
    notify: Callable[[str], None]
    worker: bool = False  # one process for all items of a place
    timeout_seconds: float | None = None  # of an item
    bind: bool = False  # to the CPUs next to its devices
    containers: MapContainers | None = None

    def caller(self, place: Placement, recorder: RunRecorder) -> Caller:
        told = run_variables(recorder.begin.id)
        cpus = self._cpus(place, recorder) if self.bind else None
        limits = ItemLimits(self.grace_seconds, self.timeout_seconds, cpus)
        stays = [word.replace("{gpu}", place.label) for word in self.template.words]

        def words(unit: MapUnit) -> Sequence[str]:
            return self.template.command(unit.items, place.label)

        if self.containers is not None:
            inside = {**defaults({}, free_port()), **told}
            if self.worker:
                return self.containers.per_worker(place, inside, stays, limits)
            return self.containers.per_item(place, inside, words, limits)
        env = {**os.environ, **place.environment, **told}
        if self.worker:
            return WorkerCaller(stays, env, place.descriptors, limits)
        return CommandCaller(words, env, place.descriptors, limits)

    def _cpus(self, place: Placement, recorder: RunRecorder) -> frozenset[int] | None:
        """Returns the CPUs next to a worker's devices, as far as they are known; the record and
        one line name them, or the reason."""
        bound = bound_to(place.devices)
        recorder.write(bound_line(bound, place.label))
        self.notify(f"{place.title}: {bound.words}")
        return bound.cpus
