"""The command of a map, started for each item or staying as a worker; here or in containers.

A container is made, followed and removed by a process of its own (`app/container_work.py`), which
outlives a killed map: the container ends with its item, and nothing is left behind.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from msgspec import Struct

from andon.errors import AndonError
from andon.host.interpreter import module_environment
from andon.leases.book.rejoin import shorten
from andon.leases.placement import Placement
from andon.model.execution import UNLEASED, ContainerOptions
from andon.model.shapes import to_json
from andon.ports import ContainerEngine
from andon.runs.record import RunRecorder
from andon.runs.rules.ranks import run_variables
from andon.work.containers.task import task_command
from andon.work.map.calls import CallEnd, Caller, CommandCaller, ItemLimits
from andon.work.map.worker_calls import WorkerCaller
from andon.work.preparing import bound_line, bound_to, defaults, environment_of, free_port
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
    inside: tuple[ContainerEngine, ContainerOptions] | None = None  # in containers of one image

    def caller(self, place: Placement, recorder: RunRecorder) -> Caller:
        variables = run_variables(recorder.begin.id)
        if self.inside is None:
            env = environment_of(os.environ, place, variables, free_port())
            return self._caller(place, recorder, list, env)
        label = place.lease_id or UNLEASED + os.urandom(4).hex()  # containers are found by it
        contain = partial(self._contained, place, label, {**defaults({}, free_port()), **variables})
        inner = self._caller(place, recorder, contain, module_environment())
        return ContainedCaller(inner, place, partial(self._clean, label))

    def _caller(
        self,
        place: Placement,
        recorder: RunRecorder,
        wrapped: Callable[[Sequence[str]], list[str]],
        env: Mapping[str, str],
    ) -> Caller:
        cpus = self._cpus(place, recorder) if self.bind else None
        limits = ItemLimits(self.grace_seconds, self.timeout_seconds, cpus)
        if self.worker:
            worker_command = [
                argument.replace("{gpu}", place.label) for argument in self.template.arguments
            ]
            return WorkerCaller(wrapped(worker_command), env, place.descriptors, limits)

        def command(unit: MapUnit) -> Sequence[str]:
            return wrapped(self.template.command(unit.items, place.label))

        return CommandCaller(command, env, place.descriptors, limits)

    def _cpus(self, place: Placement, recorder: RunRecorder) -> frozenset[int] | None:
        """Returns the CPUs next to a worker's devices, if known, and writes them or the reason to
        the record and one line."""
        bound = bound_to(place.devices)
        recorder.write(bound_line(bound, place.label))
        self.notify(f"{place.title}: {bound.reason}")
        return bound.cpus

    def _contained(
        self, place: Placement, label: str, variables: Mapping[str, str], command: Sequence[str]
    ) -> list[str]:
        """Returns the command that runs another one in a container; a worker reads its items
        from its standard input."""
        assert self.inside is not None
        engine, options = self.inside
        return task_command(
            to_json(options), label, place.devices, variables, command, engine.name,
            stdin=self.worker, sweep=False,
        )  # fmt: skip

    def _clean(self, label: str) -> None:
        """Removes what a killed process left of its container."""
        assert self.inside is not None
        engine, _ = self.inside
        try:
            for work in engine.find(label):
                engine.clean(work)
        except AndonError as error:
            self.notify(f"a container may be left behind: {error.reason}")


class ContainedCaller(Struct, frozen=True):
    """The calls of one worker; what a failed one leaves of its container is removed."""

    inner: Caller
    place: Placement
    clean: Callable[[], None]

    def call(self, unit: MapUnit) -> CallEnd:
        if self.place.held is not None:
            shorten(self.place.held.hold)  # there is room in the lease for a further container
        end = self.inner.call(unit)
        if not end.ok:
            self.clean()
        return end

    def end(self, number: int) -> None:
        """Ends the call: the process that follows a container passes SIGTERM on. If it is killed,
        the container is removed here."""
        self.inner.end(number)

    def close(self) -> None:
        self.inner.close()
        self.clean()
