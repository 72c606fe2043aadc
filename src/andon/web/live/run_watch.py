"""Live events of runs: reads new bytes of only those records that a client has open."""

import re
import time
from collections.abc import Callable, Collection
from contextlib import suppress

from andon.access.roles import Sight
from andon.errors import AndonError
from andon.model.run.record import RunState
from andon.model.shapes import to_json
from andon.node.seen.node import SeenNode
from andon.node.seen.runs import news
from andon.web.history_reader import HistoryReader
from andon.web.live.watch import Emit, Wants, Watch, prepared

RUNS = "runs"
MOST_RUNS = 24  # of one client: as many as the board lays over each other
LIST_SECONDS = 3.0
_ONE = re.compile(r"run ([A-Za-z0-9_-]{1,64})")


def run_in(what: str) -> str | None:
    """Returns the run of a subscription; None if it is not to a run."""
    found = _ONE.fullmatch(what)
    return None if found is None else found[1]


def is_too_many(wants: Collection[str]) -> bool:
    return sum(run_in(one) is not None for one in wants) >= MOST_RUNS


class RunWatch(Watch):
    """Publishes changes of runs."""

    events = f"{RUNS}, run and its id"

    def __init__(self, reader: HistoryReader, clock: Callable[[], float] = time.monotonic) -> None:
        self._reader, self._clock = reader, clock
        self._states: dict[Sight, dict[str, str]] = {}
        self._listed = float("-inf")
        self._sent: dict[str, dict[Sight, tuple[RunState, int]]] = {}

    def takes(self, what: str) -> bool:
        return what == RUNS or run_in(what) is not None

    def forget(self) -> None:
        self._states, self._sent = {}, {}

    async def publish(self, wants: Wants, emit: Emit) -> None:
        runs = {run: nodes for what, nodes in wants.items() if (run := run_in(what))}
        self._sent = {run: sent for run, sent in self._sent.items() if run in runs}
        for run, nodes in runs.items():
            with suppress(AndonError):  # it was removed: the page's own request says so
                await self._publish_run(run, nodes, emit)
        if RUNS in wants:
            await self._publish_list(wants[RUNS], emit)
        else:
            self._states = {}

    async def _publish_run(self, run: str, nodes: Collection[SeenNode], emit: Emit) -> None:
        sent, runs = self._sent.setdefault(run, {}), [node.runs for node in nodes]
        for found in await self._reader.do(lambda: news(run, runs)):
            for sight, update in found.items():
                now = (update.state, update.read.bytes)
                if sent.get(sight) != now:
                    sent[sight] = now
                    await emit("run", prepared(to_json(update)), f"run {run}", sight)

    async def _publish_list(self, nodes: Collection[SeenNode], emit: Emit) -> None:
        """Publishes that the list changed; the page requests it again with its own filters."""
        if self._clock() - self._listed < LIST_SECONDS:
            return
        self._listed = self._clock()
        before, self._states = self._states, {}
        for node in nodes:
            with suppress(AndonError):  # the page's own request says why
                await self._publish_seen(node, before.get(node.sight), emit)

    async def _publish_seen(
        self, node: SeenNode, before: dict[str, str] | None, emit: Emit
    ) -> None:
        states = self._states[node.sight] = await self._reader.do(node.runs.states)
        if before is None or before == states:
            return
        changed = [run for run in before.keys() | states if before.get(run) != states.get(run)]
        text = prepared({"changed": sorted(changed)[:100], "count": len(changed)})
        await emit("runs", text, RUNS, node.sight)
