"""The calls of a map in containers: one for each item, or one for a long-running worker.

Each is made, followed and removed by a process of its own (`app/container_work.py`), which outlives
a killed map: the container ends with its item, and nothing is left behind.
"""

import os
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from andon.errors import AndonError
from andon.host.interpreter import module_environment
from andon.leases.book.rejoin import shorten
from andon.leases.placement import Placement
from andon.model.execution import UNLEASED, ContainerOptions
from andon.ports import ContainerEngine
from andon.work.containers.rules.options import options_to_json
from andon.work.containers.task import task_command
from andon.work.map.calls import CallEnd, Caller, CommandCaller, ItemLimits
from andon.work.map.worker_calls import WorkerCaller
from andon.work.rules.map.plan import MapUnit


class MapContainers(Struct, frozen=True):
    """Creates the containers of a map, all of them from one image."""

    engine: ContainerEngine
    options: ContainerOptions
    notify: Callable[[str], None]

    def per_item(
        self,
        place: Placement,
        told: Mapping[str, str],
        words: Callable[[MapUnit], Sequence[str]],
        limits: ItemLimits,
    ) -> "ContainedCaller":
        """Returns a caller with a container for each call."""
        label = _label(place)

        def command(unit: MapUnit) -> Sequence[str]:
            return self._task(place, label, told, words(unit))

        inner = CommandCaller(command, module_environment(), place.descriptors, limits)
        return ContainedCaller(inner, self, place, label)

    def per_worker(
        self,
        place: Placement,
        told: Mapping[str, str],
        words: Sequence[str],
        limits: ItemLimits,
    ) -> "ContainedCaller":
        """A caller with a long-running container that reads its items from its standard input."""
        label = _label(place)
        command = self._task(place, label, told, words, stdin=True)
        inner = WorkerCaller(command, module_environment(), place.descriptors, limits)
        return ContainedCaller(inner, self, place, label)

    def _task(
        self,
        place: Placement,
        label: str,
        told: Mapping[str, str],
        words: Sequence[str],
        stdin: bool = False,
    ) -> list[str]:
        return task_command(
            options_to_json(self.options),
            label,
            place.devices,
            told,
            words,
            self.engine.name,
            stdin=stdin,
            sweep=False,
        )

    def clean(self, label: str) -> None:
        """Removes what a killed process left of its container."""
        try:
            for work in self.engine.find(label):
                self.engine.clean(work)
        except AndonError as error:
            self.notify(f"a container may be left behind: {error.reason}")


class ContainedCaller:
    """The calls of one worker; what a failed one leaves of its container is removed."""

    def __init__(
        self, inner: Caller, containers: MapContainers, place: Placement, label: str
    ) -> None:
        self._inner, self._containers = inner, containers
        self._place, self._label = place, label

    def call(self, unit: MapUnit) -> CallEnd:
        if self._place.held is not None:
            shorten(self._place.held.hold)  # there is room in the lease for a further container
        end = self._inner.call(unit)
        if not end.ok:
            self._containers.clean(self._label)
        return end

    def end(self, number: int) -> None:
        """Ends the call: the process that follows a container passes SIGTERM on. If it is killed,
        the container is removed here."""
        self._inner.end(number)

    def close(self) -> None:
        self._inner.close()
        self._containers.clean(self._label)


def _label(place: Placement) -> str:
    """Returns the label by which containers are found: the id of the lease."""
    return place.lease_id or UNLEASED + os.urandom(4).hex()
