"""The line that shows the state of a wait: rewritten on a terminal, printed rarely elsewhere."""

import sys
import time
from typing import TYPE_CHECKING

from andon.cli.screen import size
from andon.cli.show.text import styled
from andon.cli.terminal import Choices, notice, write
from andon.leases.availability import Candidates
from andon.leases.rules.eligibility import HEALTH, NEVER, Obstacle, ObstacleKind
from andon.model.naming import titles
from andon.units import counted, human_bytes, human_seconds

if TYPE_CHECKING:
    from andon.leases.granter import Progress
    from andon.model.lease_list import WaitingRow

REPEAT_SECONDS = 30.0
ORDINALS = {1: "1st", 2: "2nd", 3: "3rd"}


class LineInPlace:
    """A line of standard error: rewritten on a terminal; elsewhere printed when its subject
    changes, and now and then."""

    def __init__(self, choices: Choices) -> None:
        self._choices = choices
        self.is_live = sys.stderr.isatty() and not choices.quiet
        self._printed = 0.0
        self._about: object = None
        self._shown = False

    @property
    def width(self) -> int | None:
        """The maximum width of a line; None if it does not matter."""
        return size()[0] - 1 if self.is_live else None

    def show(self, text: str, about: object = "") -> None:
        if self.is_live:
            write(sys.stderr, f"\r\x1b[K{styled(text).fit(size()[0] - 1).plain}")
            self._shown = True
        elif about != self._about or time.monotonic() - self._printed >= REPEAT_SECONDS:
            self._printed, self._about = time.monotonic(), about
            notice(text, self._choices)

    def clear(self) -> None:
        if self._shown:
            write(sys.stderr, "\r\x1b[K")
            self._shown = False


class WaitingLine(LineInPlace):
    """Shows the progress of a wait: call it with every progress; `clear` removes the line."""

    def __call__(self, progress: "Progress") -> None:
        self.show(waiting_text(progress, self.width))


def waited_text(seconds: float) -> str:
    """Returns `waiting 0:42`; without a time in the first second, which may be the only line."""
    whole = int(seconds)
    return f"waiting {whole // 60}:{whole % 60:02d}" if whole else "waiting"


def waiting_text(progress: "Progress", width: int | None = None) -> str:
    """Returns `waiting 0:42 · 2nd in queue behind alice (4 GPUs) · 1 of 2 free · GPU 0: held by
    …`.

    If that is too wide, parts are left out rather than cut.
    """
    candidates = progress.candidates
    waited, place = waited_text(progress.waited_seconds), _place(progress)
    count = ""
    if candidates.missing:
        count = _count(candidates)
    note = progress.note or candidates.limit or candidates.choice.reason
    reason = note or _first_obstacle(candidates)
    short = note or _first_obstacle(candidates, brief=True)
    forms = (
        (waited, place, count, reason),
        (waited, place, count.partition(",")[0], reason),
        (waited, place, count, short),
        (waited, place, short),
        (waited, _number(progress), short),
        (waited, short),
        (waited, _number(progress)),
    )
    texts = [" · ".join(part for part in parts if part) for parts in forms]
    return next((text for text in texts if width is None or len(text) <= width), texts[-1])


def queue_line(row: "WaitingRow", at: float) -> str:
    """`queue 2: dora, 1 GPU with 20.0 GiB, priority -1, waiting 4 min`."""
    line = f"queue {row.position}: {row.user}, {counted(row.gpus, 'GPU')}"
    if row.memory_bytes:
        line += f" with {human_bytes(row.memory_bytes)}"
    if row.priority:
        line += f", priority {row.priority}"
    line += f", waiting {human_seconds(max(0.0, at - row.since))}"
    if row.jobs_behind:
        line += f", {counted(row.jobs_behind, 'more job')} behind it"
    return line


def _number(progress: "Progress") -> str:
    """The position in the queue; a request that only waits has none, and later ones may pass it."""
    ahead = len(progress.candidates.ahead)
    if not progress.queued:
        return f"{ahead} ahead in the queue" if ahead else ""
    return f"{ORDINALS.get(ahead + 1, f'{ahead + 1}th')} in queue"


def _place(progress: "Progress") -> str:
    place, ahead = _number(progress), progress.candidates.ahead
    if not ahead:
        return place
    last = ahead[-1]
    count = last.need.least
    jobs = f", {counted(last.jobs_behind, 'more job')}" if last.jobs_behind else ""
    named = f"{last.owner.user} ({counted(count, 'GPU')}{jobs})"
    if progress.queued:
        return f"{place} behind {named}"
    return f"{place}: {named}" if len(ahead) == 1 else f"{place}, the last {named}"


def _count(candidates: "Candidates") -> str:
    """`1 of 8 free, 2 needed`, counted as `andon free` counts."""
    bars = [one.obstacle.kind if one.obstacle else None for one in candidates.choice.candidates]
    requested = [bar for bar in bars if bar is not ObstacleKind.NOT_REQUESTED]
    least = candidates.need.least
    needed = f", {least} needed" if least > 1 else ""
    return f"{requested.count(None)} of {len(requested)} free{needed}"


def _first_obstacle(candidates: "Candidates", brief: bool = False) -> str:
    """Returns the obstacle of the device that is expected to become available first; `brief` names
    only the holder."""
    from andon.leases.refusal import obstacle_text

    barred = [
        (c.uuid, c.obstacle)
        for c in candidates.choice.candidates
        if c.obstacle and c.obstacle.kind not in NEVER
    ]
    if not barred:
        return ""
    uuid, soonest = min(barred, key=lambda one: _expected(one[1]))
    title = titles(candidates.snapshot.devices)[uuid]
    if brief and soonest.by is not None:
        return f"{title}: {soonest.by}"
    return f"{title}: {obstacle_text(soonest, candidates.snapshot.at)}"


def _expected(obstacle: Obstacle) -> tuple[float, bool, bool]:
    """Returns a sort key for when an obstacle ends: a lease without an end ends with its
    command; a fault ends when someone repairs it."""
    until = float("inf") if obstacle.until is None else obstacle.until
    return until, obstacle.lease is None, obstacle.kind in HEALTH
