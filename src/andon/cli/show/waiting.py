"""The line that shows the state of a wait: rewritten on a terminal, printed rarely elsewhere."""

import sys
import time
from typing import TYPE_CHECKING

from andon.cli.show.text import say
from andon.cli.terminal import Choices, notice, size, write

if TYPE_CHECKING:
    from andon.engine.sharing.availability import Candidates
    from andon.engine.sharing.granter import Progress

REPEAT_SECONDS = 30.0
ORDINALS = {1: "1st", 2: "2nd", 3: "3rd"}


class WaitingLine:
    """Call it with every progress; `clear` removes it."""

    def __init__(self, choices: Choices) -> None:
        self._choices = choices
        self._live = sys.stderr.isatty() and not choices.quiet
        self._printed = 0.0
        self._shown = False

    def __call__(self, progress: "Progress") -> None:
        text = waiting_text(progress)
        if self._live:
            width = size()[0] - 1
            write(sys.stderr, f"\r\x1b[K{say(text).fit(width).plain}")
            self._shown = True
        elif not self._printed or time.monotonic() - self._printed >= REPEAT_SECONDS:
            self._printed = time.monotonic()
            notice(text, self._choices)

    def clear(self) -> None:
        if self._shown:
            write(sys.stderr, "\r\x1b[K")
            self._shown = False


def waiting_text(progress: "Progress") -> str:
    """`waiting 0:42 · 2nd in queue behind alice (4 GPUs) · 1 of 2 free · GPU 0: held by …`."""
    candidates = progress.candidates
    seconds = int(progress.waited_seconds)
    parts = [f"waiting {seconds // 60}:{seconds % 60:02d}", _place(candidates)]
    if candidates.missing:
        found = candidates.need.least - candidates.missing
        parts.append(f"{found} of {candidates.need.least} free")
    reason = progress.note or candidates.choice.reason or _first_obstacle(candidates)
    return " · ".join(part for part in (*parts, reason) if part)


def _place(candidates: "Candidates") -> str:
    number = len(candidates.ahead) + 1
    place = f"{ORDINALS.get(number, f'{number}th')} in queue"
    if not candidates.ahead:
        return place
    first = candidates.ahead[-1]
    count = first.need.least
    return f"{place} behind {first.owner.user} ({count} GPU{'' if count == 1 else 's'})"


def _first_obstacle(candidates: "Candidates") -> str:
    """The device that is expected to become available first."""
    from andon.core.sharing.obstacles import NEVER
    from andon.engine.sharing.refusal import obstacle_words
    from andon.model.naming import titles

    barred = [
        c for c in candidates.choice.candidates if c.obstacle and c.obstacle.kind not in NEVER
    ]
    if not barred:
        return ""
    soonest = min(barred, key=lambda c: (c.obstacle and c.obstacle.until) or float("inf"))
    if soonest.obstacle is None:
        return ""
    title = titles(candidates.snapshot.devices)[soonest.uuid]
    return f"{title}: {obstacle_words(soonest.obstacle, candidates.snapshot.at)}"
