"""Live events of runs: reads new bytes of only those records that a client has open."""

import re
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress

from andon.access.roles import Sight
from andon.errors import AndonError
from andon.model.run.record import RunState
from andon.model.shapes import to_json
from andon.model.wire import dumps
from andon.node.seen.runs import SeenRuns
from andon.node.seen.texts import sendable
from andon.web.bindings.live_server import Prepared
from andon.web.history_reader import HistoryReader

RUNS = "runs"
MOST_RUNS = 8  # of one client: as many as the board lays over each other
LIST_SECONDS = 3.0
_ONE = re.compile(r"run ([A-Za-z0-9_-]{1,64})")

Emit = Callable[[str, Prepared, str, Sight], Awaitable[None]]
"""An event, its text, what was subscribed to, and who sees it so."""


def run_in(what: str) -> str | None:
    """Returns the run of a subscription; None if it is not to a run."""
    found = _ONE.fullmatch(what)
    return None if found is None else found[1]


def is_too_many(wants: Collection[str]) -> bool:
    return sum(run_in(one) is not None for one in wants) >= MOST_RUNS


class RunWatch:
    """Publishes changes of runs; reads nothing while no client is subscribed."""

    def __init__(
        self,
        runs: SeenRuns,
        reader: HistoryReader,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._runs, self._reader, self._clock = runs, reader, clock
        self._states: dict[Sight, dict[str, str]] = {}
        self._listed = float("-inf")
        self._told: dict[str, dict[Sight, tuple[RunState, int]]] = {}

    async def publish(self, wants: Mapping[str, Collection[Sight]], emit: Emit) -> None:
        """Publishes one round; `wants` maps each subscription to the sights of its callers."""
        runs = {run: sights for what, sights in wants.items() if (run := run_in(what))}
        self._told = {run: told for run, told in self._told.items() if run in runs}
        for run, sights in runs.items():
            with suppress(AndonError):  # it was removed: the page's own request says so
                await self._publish_run(run, sights, emit)
        if RUNS in wants:
            await self._publish_list(wants[RUNS], emit)
        else:
            self._states = {}

    async def _publish_run(self, run: str, sights: Collection[Sight], emit: Emit) -> None:
        told = self._told.setdefault(run, {})
        for found in await self._reader.do(lambda: self._runs.news(run, sights)):
            now = (found.state, found.read_bytes)
            for sight, update in found.updates.items():
                if told.get(sight) != now:
                    told[sight] = now
                    text = Prepared(sendable(dumps(to_json(update))))
                    await emit("run", text, f"run {run}", sight)

    async def _publish_list(self, sights: Collection[Sight], emit: Emit) -> None:
        """Publishes that the list changed; the page requests it again with its own filters."""
        if self._clock() - self._listed < LIST_SECONDS:
            return
        self._listed = self._clock()
        before, self._states = self._states, {}
        for sight in sights:
            with suppress(AndonError):  # the page's own request says why
                await self._publish_seen(sight, before.get(sight), emit)

    async def _publish_seen(self, sight: Sight, before: dict[str, str] | None, emit: Emit) -> None:
        states = await self._reader.do(lambda: self._runs.seen_by(sight).states())
        self._states[sight] = states
        if before is None or before == states:
            return
        changed = [run for run in before.keys() | states if before.get(run) != states.get(run)]
        text = Prepared(dumps({"changed": sorted(changed)[:100], "count": len(changed)}))
        await emit("runs", text, RUNS, sight)
