"""Live events of jobs: each job that changed, for clients that have the page open."""

from collections.abc import Awaitable, Callable, Collection

from andon.core.access.roles import Sight
from andon.model.job import JobView
from andon.model.shapes import to_json
from andon.model.wire import dumps
from andon.web.answers.texts import sendable
from andon.web.bindings.packets import Prepared
from andon.web.history_reader import HistoryReader
from andon.web.server_jobs import ServerJobs, counts_of, shown_to

JOBS = "jobs"
MOST_EVENTS = 100
"""Jobs that are sent one by one; beyond that the page asks for the list again."""

Emit = Callable[[str, Prepared, str, Sight], Awaitable[None]]


class JobWatch:
    """Nothing is read while no client is subscribed."""

    def __init__(self, jobs: ServerJobs, reader: HistoryReader) -> None:
        self._jobs, self._reader = jobs, reader
        self._told: dict[int, JobView] | None = None

    def forget(self) -> None:
        """Nobody looks any more."""
        self._told = None

    async def publish(self, sights: Collection[Sight], emit: Emit) -> None:
        """One round: a `job` event for each that changed since the last one."""
        views, paused = await self._reader.do(self._jobs.views)
        now = {view.number: view for view in views}
        before, self._told = self._told, now
        if before is None:
            return
        changed = [view for number, view in now.items() if before.get(number) != view]
        gone = sorted(before.keys() - now.keys())
        if not changed and not gone:
            return
        counts = to_json(counts_of(views))
        for sight in sights:
            shown = [to_json(shown_to(sight, view)) for view in changed[:MOST_EVENTS]]
            whole = len(changed) <= MOST_EVENTS
            value = {"jobs": shown, "gone": gone[:MOST_EVENTS], "whole": whole, "paused": paused}
            await emit("job", Prepared(sendable(dumps({**value, "counts": counts}))), JOBS, sight)
