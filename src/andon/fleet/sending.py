"""Sends a node's past to its hub: finished blocks of its store, uses, ended alerts, runs."""

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct, field

from andon.alerts.rules.past import Query
from andon.errors import AndonError, Invalid, Unavailable
from andon.fleet.link import PAST, HubLink
from andon.fleet.rules.past import PastPart, due_windows, packed_past, runs_since
from andon.fleet.rules.states import CLOCK_SECONDS
from andon.history.rules.tiers import DAY_SECONDS, WINDOW_MS, StoredBlock, Tier
from andon.host.files import read_regular, replace_file
from andon.model.codec import Time, Whole, Wrong, read
from andon.model.run.record import RunRow, RunState
from andon.model.wire import NOTE, dumps, loads
from andon.node.served import ServedNode
from andon.runs.rules.matching import RunQuery

log = logging.getLogger("andon.uplink")

CHECK_SECONDS = 60.0
MOST_WINDOWS, MOST_BYTES = 12, 500_000
"""Of one request; while there is more, one is sent after each heartbeat: live data go first."""
MOST_ALERTS = 200
MOST_RUNS = 200
"""Looked at; they are sent while they go on and when they have ended."""
OVERLAP_SECONDS = 60.0
MARKS_FILE, TROUBLE_FILE = "hub-sent.json", "hub-trouble.json"


class SentMarks(Struct):
    """The times up to which a hub has everything."""

    hub: str = ""
    tiers: dict[str, Whole] = field(default_factory=dict)
    """Milliseconds, by the number of the tier."""
    at: Time = 0.0
    """Of uses and alerts."""


class PastSender:
    """Sends the past in the heartbeats' thread, after an acknowledged heartbeat. A file has what
    the hub acknowledged, so that a restart repeats no more than what was unanswered."""

    def __init__(
        self,
        folder: Path,
        node: ServedNode,
        clock: Callable[[], float] = time.time,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self._file, self._node, self._clock = folder / MARKS_FILE, node, clock
        self._most_bytes = most_bytes
        self._marks = read_marks(folder)
        self._due, self._known = 0.0, frozenset[tuple[str, RunState]]()

    def __call__(self, link: HubLink, offset: float) -> None:
        """Sends the next part, if one is due. `offset` is how far the hub's clock is ahead: while
        that is too far, nothing is sent, and the hub keeps what came with the heartbeats."""
        changed = self._changed()
        if time.monotonic() < self._due and not changed:
            return
        self._due = time.monotonic() + CHECK_SECONDS
        if abs(offset) >= CLOCK_SECONDS:
            return
        if self._marks.hub != link.hubs or self._marks.at > self._clock() + OVERLAP_SECONDS:
            self._marks = SentMarks(link.hubs)  # of another hub, or of a clock that was wrong
        part, windows, at = self._next()
        if part:
            self._send(link, part)
        for tier, since in windows:
            self._marks.tiers[str(int(tier))] = since + WINDOW_MS[tier]
        self._marks.at = at
        if windows:
            self._due = 0.0
        self._save()

    def _changed(self) -> bool:
        """Whether a run has begun or ended since the last call."""
        before = self._known
        with suppress(AndonError):
            self._known = frozenset((row.id, row.state) for row in self._latest_runs())
        return self._known != before

    def hurry(self) -> None:
        """Sends with the next heartbeat, because someone waits for something new."""
        self._due = 0.0

    def _send(self, link: HubLink, part: PastPart) -> None:
        """Sends a part; what a hub refuses is skipped, so that it gets what follows."""
        try:
            link.send(PAST, packed_past(part))
        except Unavailable:
            self._due = 0.0  # with the next heartbeat: a hub that is back has many to hear
            raise
        except Invalid as exc:
            log.warning("the hub does not take a part of the history: %s", exc.reason)

    def _next(self) -> tuple[PastPart, list[tuple[Tier, int]], float]:
        """Returns what to send, its windows, and up to when its uses and alerts go."""
        store, now = self._node.past.store(), self._clock()
        held = store.contents()
        sent = {tier: self._marks.tiers.get(str(int(tier)), 0) for tier in Tier}
        oldest = int((now - DAY_SECONDS) * 1000)
        sent[Tier.RAW] = max(sent[Tier.RAW], oldest)
        blocks, windows = list[StoredBlock](), list[tuple[Tier, int]]()
        ended = int(now * 1000)
        for tier, since in due_windows(held.extents, held.unpacked, sent, MOST_WINDOWS, ended):
            blocks += store.blocks(tier, since)
            windows.append((tier, since))
            if sum(len(one[-1]) for one in blocks) > self._most_bytes:
                break
        after = max(self._marks.at - OVERLAP_SECONDS, now - DAY_SECONDS)
        page = self._node.alerts.page(wanted=Query(after, limit=MOST_ALERTS))
        if page.note is not None:
            raise Unavailable(page.note)  # those of the past cannot be read now
        alerts = [one for one in page.alerts if one.fired is not None]
        uses = store.usage(None, after, now)
        rows = list[RunRow]()
        with suppress(AndonError):  # an index that cannot be read is looked at again
            rows = runs_since(self._latest_runs(), max(0.0, self._marks.at - OVERLAP_SECONDS))
        return PastPart(store.devices(), blocks, uses, alerts, rows), windows, now

    def _latest_runs(self) -> Sequence[RunRow]:
        return self._node.runs.find(RunQuery(limit=MOST_RUNS))

    def _save(self) -> None:
        marks = self._marks
        with suppress(OSError):
            content = dumps({"hub": marks.hub, "tiers": marks.tiers, "at": marks.at})
            replace_file(self._file, content.encode())


def note_trouble(folder: Path, hub: str, trouble: AndonError | None) -> None:
    """Writes for doctor why a hub refuses reports; None if it accepts them."""
    trouble_fields = ("", "", "") if trouble is None else (hub, trouble.reason, trouble.hint)
    with suppress(OSError):
        replace_file(folder / TROUBLE_FILE, dumps({"trouble": trouble_fields}).encode())


def read_trouble(folder: Path) -> tuple[str, str, str]:
    """Returns the hub that refuses reports, the reason and a hint; empty if none does."""
    with suppress(OSError, AndonError, KeyError, TypeError, ValueError):
        document = loads(read_regular(folder / TROUBLE_FILE), NOTE)
        hub, reason, hint = map(str, document["trouble"])
        return hub, reason, hint
    return "", "", ""


def read_marks(folder: Path) -> SentMarks:
    """Returns what a hub has of the node with this folder; empty marks without a file."""
    with suppress(OSError, AndonError, Wrong):
        return read(SentMarks, loads(read_regular(folder / MARKS_FILE), NOTE))
    return SentMarks()
