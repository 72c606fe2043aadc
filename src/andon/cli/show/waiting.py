"""The line that shows how the waiting goes: rewritten on a terminal, seldom anywhere else."""

import sys
import time
from typing import TYPE_CHECKING

from andon.cli.show.text import say
from andon.cli.terminal import Choices, notice, size, write

if TYPE_CHECKING:
    from andon.engine.sharing.availability import Candidates
    from andon.engine.sharing.granter import Progress

SELDOM_SECONDS = 30.0
ORDINALS = {1: "1st", 2: "2nd", 3: "3rd"}


class WaitingLine:
    """Call it with every progress; `clear` takes it away again."""

    def __init__(self, choices: Choices) -> None:
        self._choices = choices
        self._live = sys.stderr.isatty() and not choices.quiet
        self._told = 0.0
        self._shown = False

    def __call__(self, progress: "Progress") -> None:
        words = waiting_words(progress)
        if self._live:
            width = size()[0] - 1
            write(sys.stderr, f"\r\x1b[K{say(words).fit(width).plain}")
            self._shown = True
        elif not self._told or time.monotonic() - self._told >= SELDOM_SECONDS:
            self._told = time.monotonic()
            notice(words, self._choices)

    def clear(self) -> None:
        if self._shown:
            write(sys.stderr, "\r\x1b[K")
            self._shown = False


def waiting_words(progress: "Progress") -> str:
    """`waiting 0:42 · 2nd in line behind alice (4 GPUs) · 1 of 2 missing · GPU 0: held by …`."""
    outlook = progress.outlook
    seconds = int(progress.waited_seconds)
    parts = [f"waiting {seconds // 60}:{seconds % 60:02d}", _place(outlook)]
    if outlook.missing:
        parts.append(f"{outlook.missing} of {outlook.need.least} missing")
    reason = progress.note or outlook.choice.reason or _first_obstacle(outlook)
    return " · ".join(part for part in (*parts, reason) if part)


def _place(outlook: "Candidates") -> str:
    number = len(outlook.ahead) + 1
    place = f"{ORDINALS.get(number, f'{number}th')} in line"
    if not outlook.ahead:
        return place
    first = outlook.ahead[-1]
    count = first.need.least
    return f"{place} behind {first.owner.user} ({count} GPU{'' if count == 1 else 's'})"


def _first_obstacle(outlook: "Candidates") -> str:
    """What ends soonest is what is waited for."""
    from andon.core.sharing.obstacles import NEVER
    from andon.engine.sharing.availability import names
    from andon.engine.sharing.refusal import obstacle_words

    barred = [c for c in outlook.choice.candidates if c.obstacle and c.obstacle.kind not in NEVER]
    if not barred:
        return ""
    soonest = min(barred, key=lambda c: (c.obstacle and c.obstacle.until) or float("inf"))
    if soonest.obstacle is None:
        return ""
    title = names(outlook.snapshot)[soonest.uuid]
    return f"{title}: {obstacle_words(soonest.obstacle, outlook.snapshot.at)}"
