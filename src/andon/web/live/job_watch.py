"""Live events of jobs: each job that changed, for clients that have the page open."""

from andon.access.roles import Sight
from andon.errors import AndonError
from andon.jobs.rules.views import JobListing
from andon.model.job.facts import JobView
from andon.model.shapes import to_json
from andon.node.seen.jobs import counts_of
from andon.web.history_reader import HistoryReader
from andon.web.live.watch import Emit, Wants, Watch, prepared

JOBS = "jobs"
MOST_EVENTS = 100
"""Jobs that are sent one by one; beyond that the page asks for the list again."""


class JobWatch(Watch):
    """Publishes changed jobs: a `job` event for each."""

    events = JOBS

    def __init__(self, reader: HistoryReader) -> None:
        self._reader = reader
        self._sent: dict[Sight, dict[tuple[str, str], JobView]] = {}

    def forget(self) -> None:
        self._sent = {}

    async def publish(self, wants: Wants, emit: Emit) -> None:
        """A caller whose jobs cannot be read does not affect the others."""
        nodes = wants[JOBS]
        sights = {node.sight for node in nodes}
        self._sent = {sight: sent for sight, sent in self._sent.items() if sight in sights}
        failed: AndonError | None = None
        for node in nodes:
            try:
                found, _ = await self._reader.do(node.jobs.listed)
            except AndonError as error:
                failed = error if node.sight.uid is None else failed  # a user's own page says why
            else:
                await self._publish(node.sight, found, emit)
        if failed is not None:
            raise failed

    async def _publish(self, sight: Sight, found: JobListing, emit: Emit) -> None:
        now = {(view.user, view.label): view for view in found.views}
        before, self._sent[sight] = self._sent.get(sight), now
        if before is None:
            return
        changed = [view for name, view in now.items() if before.get(name) != view]
        gone = sorted(before.keys() - now.keys())
        if not changed and not gone:
            return
        value = {
            "jobs": to_json(changed[:MOST_EVENTS]),
            "gone": [{"user": user, "label": label} for user, label in gone[:MOST_EVENTS]],
            "whole": len(changed) <= MOST_EVENTS,
            "paused": found.paused,
            "counts": to_json(counts_of(found.views)),
        }
        await emit("job", prepared(value), JOBS, sight)
