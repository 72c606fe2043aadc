"""The progress of a program, parsed from the end of its output: tqdm, Keras, Lightning, `step |
3/9`.

The time left in the output is ignored: it is computed from the steps and the time that they
took.
"""

import re
from collections.abc import Iterable, Iterator

from msgspec import Struct

from andon.model.job.progress import WorkProgress
from andon.model.run.record import RunLogged

TAIL_BYTES = 8 * 1024
"""How much of the end of an output is read."""
MOST_LINES, LONGEST_LINE, LONGEST_LABEL = 100, 400, 40
_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_=>])")
_NUMBER = r"(\d{1,12}(?:\.\d{1,3})?[kmgt]?)"
_OF = rf"\s{{0,8}}{_NUMBER}\s?(?:/|of)\s{{0,8}}{_NUMBER}(?![\d.])"
_BAR = "%|"  # of tqdm
_TQDM = re.compile(rf"%\|[^|]*\|{_OF}\s\[(?P<took>[\d:]{{4,12}})<")
_BARS = re.compile(rf"(?:^|\s){_OF}\s(?:[━╸╺─]|\[[=>.])|[━╸╺─]\s{_OF}\s")
_EPOCH = re.compile(rf"\bepochs?\b[\s:=\[(#]{{0,4}}{_OF}")
_STEP = re.compile(
    r"\b(?P<label>(?:global_)?step|iter|iteration|batch|update|sample|round)s?\b[\s:=\[(#]{0,12}"
    + _OF
)
_IN_EPOCH = re.compile(rf"\bepoch\b[\s:]{{0,2}}\[?\s?\d{{1,9}}\]?(?::\s{{1,4}}|\s?\[){_OF}")
MOST = 10**12
TOTALS = ("total_steps", "max_steps", "total")
"""Names under which programs log how many steps there will be."""
_FACTORS = {"k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}


class OutputProgress(Struct, frozen=True):
    """The last progress in an output: a step, the epoch around it, and the time on its bar."""

    step: int
    total: int
    label: str = ""
    epoch: int | None = None
    epochs: int | None = None
    bar_seconds: float | None = None
    within: bool = False  # steps of one epoch, or of one of several bars

    @property
    def share(self) -> float:
        """Returns the share of the whole that is done; an epoch without steps counts as half."""
        if self.epoch is None or self.epochs is None:
            return self.step / self.total
        inner = 0.5 if self.total == 0 else self.step / self.total
        return min(1.0, (max(0, self.epoch - 1) + inner) / self.epochs)


def progress_in(tail: str) -> OutputProgress | None:
    """Returns the latest step in the end of an output; None if it shows none."""
    step: OutputProgress | None = None
    for line in _lines_backwards(tail):
        if step is None:
            step = _step_in(line)
        epoch = _pair(_EPOCH.search(line.lower()))
        if epoch is None:
            continue
        if step is None:
            return OutputProgress(0, 0, "epoch", *epoch)
        return OutputProgress(step.step, step.total, step.label, *epoch, step.bar_seconds)
    return step


def work_progress(shown: OutputProgress, started: float | None, at: float) -> WorkProgress:
    """Returns the progress, with an end expected from the time that the steps took so far. There is
    no end before the first step, or if the number of epochs is unknown."""
    took = shown.bar_seconds if shown.epochs is None else None
    if took is None and started is not None and (shown.epochs is not None or not shown.within):
        took = at - started
    end = rate = None
    if took is not None and took > 0 and shown.share > 0:
        end = at + took * (1 - shown.share) / shown.share
    if shown.total == 0 and shown.epochs is not None and shown.epoch is not None:
        return WorkProgress(shown.epoch, shown.epochs, shown.label, None, end)
    paced = shown.bar_seconds if shown.epochs is not None else took
    if paced is not None and paced > 0:
        rate = shown.step / paced
    label = shown.label if shown.epochs is None else f"epoch {shown.epoch}/{shown.epochs}"
    return WorkProgress(shown.step, shown.total, label, rate, end)


def logged_progress(lines: Iterable[RunLogged]) -> WorkProgress | None:
    """Returns the progress of `run.log(step=450, total_steps=1000)`; None without a step and a
    total. The rate is that between the first and the last of these lines."""
    found = [line for line in lines if line.step is not None]
    totals = [line.values[name] for line in found[-1:] for name in TOTALS if name in line.values]
    if not totals:
        return None
    first, last = found[0], found[-1]
    step, total = last.step or 0.0, totals[0]
    if not 0 <= step <= total or not 1 <= total <= MOST:
        return None
    took, made = last.at - first.at, step - (first.step or 0.0)
    rate = made / took if took > 0 and made > 0 else None
    end = None if rate is None else last.at + (total - step) / rate
    return WorkProgress(int(step), int(total), "step", rate, end)


def _lines_backwards(tail: str) -> Iterator[str]:
    """Yields the latest lines that may show steps, without escape sequences; a carriage return
    begins a new one."""
    text = _ESCAPE.sub("", tail[-TAIL_BYTES:])
    for line in re.split(r"[\r\n]+", text)[: -MOST_LINES - 1 : -1]:
        if "/" in line or " of " in line:
            yield line[:LONGEST_LINE]


def _step_in(line: str) -> OutputProgress | None:
    low, place = line.lower(), line.find(_BAR)
    if place >= 0 and (match := _TQDM.search(low, place)) and (pair := _pair(match)) is not None:
        label = _label(line[:place].rstrip("0123456789").rstrip(" :"))
        return OutputProgress(*pair, label, bar_seconds=_clock_seconds(match["took"]))
    for pattern in (_IN_EPOCH, _STEP, _BARS):
        if (match := pattern.search(low)) and (pair := _pair(match)) is not None:
            label = match["label"] if pattern is _STEP else ""
            return OutputProgress(*pair, label, within=label in ("", "batch"))
    return None


def _pair(match: re.Match[str] | None) -> tuple[int, int] | None:
    """Returns step and total; None if they make no sense."""
    if match is None:
        return None
    step, total = (
        round(float(text.rstrip("kmgt")) * _FACTORS.get(text[-1], 1.0))
        for text in match.groups()
        if text and text[0].isdecimal() and ":" not in text
    )
    return (step, total) if 0 <= step <= total and 0 < total <= MOST else None


def _clock_seconds(text: str) -> float | None:
    """Parses `01:23`, `1:02:03`."""
    parts = text.split(":")
    if not 2 <= len(parts) <= 3 or not all(part.isdecimal() for part in parts):
        return None
    seconds = 0.0
    for part in parts:
        seconds = 60 * seconds + float(part)
    return seconds


def _label(text: str) -> str:
    shown = "".join(one for one in text.strip() if one.isprintable())
    return shown if len(shown) <= LONGEST_LABEL else f"{shown[: LONGEST_LABEL - 1]}…"
