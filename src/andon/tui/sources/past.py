"""The readings from before top began: what a server remembers, or the history on disk."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from andon.cli.sources import settings_of
from andon.cli.terminal import Choices
from andon.errors import AndonError
from andon.model.device import Snapshot
from andon.tui.histories import METRICS, Point
from andon.tui.sources.feed import Feed
from andon.tui.sources.snapshots import ServerSnapshots

if TYPE_CHECKING:
    from andon.cli.past_source import Past

POINTS = 240
PastPoints = dict[tuple[str, str], list[Point]]


class PastReader:
    """Reads the past of one device after the other, the one that is shown first."""

    def __init__(self, choices: Choices, feed: Feed) -> None:
        self._choices, self._feed = choices, feed
        self._opened = False
        self._past: Past | None = None
        self._read: set[tuple[str, float]] = set()

    def next(
        self, uuids: Sequence[str], first: str | None, span_seconds: float, until: float
    ) -> PastPoints:
        """The past of the next device that has none yet; empty where all is read."""
        wanted = [uuid for uuid in (first, *uuids) if uuid is not None and uuid in uuids]
        left = [uuid for uuid in wanted if (uuid, span_seconds) not in self._read]
        if not left or not self._open():
            return {}
        self._read.add((left[0], span_seconds))
        return self._points(left[0], until - span_seconds, until)

    def forget(self) -> None:
        """Another span is shown: all of it is read again."""
        self._read.clear()

    def remembered(self) -> list[Snapshot]:
        """The last minutes, as a server has them in memory: enough for a first picture."""
        source = self._feed.source
        if not isinstance(source, ServerSnapshots):
            return []
        try:
            return source.past()
        except AndonError:
            return []

    def _open(self) -> bool:
        """Simulated devices and recordings have no past here."""
        if not self._opened:
            self._opened = True
            settings = settings_of(self._choices)
            own = not settings.simulate and not settings.replay
            if own or self._choices.url is not None:
                from andon.cli.past_source import find_past

                try:
                    self._past = find_past(self._choices)
                except AndonError:
                    self._past = None
        return self._past is not None

    def _points(self, uuid: str, since: float, until: float) -> PastPoints:
        assert self._past is not None
        found: PastPoints = {}
        for metric in METRICS:
            try:
                buckets = self._past.history(uuid, metric, since, until, POINTS)
            except AndonError:
                buckets = ()
            found[uuid, metric] = [
                Point((one.since + one.until) / 2, one.mean, one.until - one.since)
                for one in buckets
            ]
        return found
