"""The sentences of `andon map`."""

from collections.abc import Sequence

from andon.cli.show.cells import bar
from andon.cli.show.text import Text, say
from andon.units import fixed, human_seconds, measured_seconds
from andon.work.map.session import MapProgress, MapResult
from andon.work.rules.map.scaling import ScalingStep, efficiency, held_back_by
from andon.work.rules.map.template import NO_GPU

BAR_WIDTH = 20
MOST_NAMED = 8


def progress_line(progress: MapProgress) -> Text:
    """`42/120 ━━━━━─── 35 %  3.1/s  about 25 s left  GPU 0, 1  1 failed`."""
    share = 100 * progress.ended / progress.total if progress.total else 100.0
    head = say(f"{progress.ended}/{progress.total} ")
    line = head + bar(share, BAR_WIDTH, "green") + say(f" {fixed(share)} %")
    for part in _parts(progress):
        line += say("  ") + part
    return line


def progress_words(progress: MapProgress) -> str:
    """The same without a terminal."""
    share = 100 * progress.ended / progress.total if progress.total else 100.0
    parts = [f"{progress.ended} of {progress.total} items ({fixed(share)} %)"]
    return ", ".join([*parts, *(part.plain for part in _parts(progress))])


def _parts(progress: MapProgress) -> list[Text]:
    parts = []
    if progress.per_second is not None:
        parts.append(say(rate(progress.per_second)))
    if progress.left_seconds is not None and progress.ended < progress.total:
        parts.append(say(f"about {human_seconds(progress.left_seconds + 0.5)} left"))
    if progress.workers:
        parts.append(say(where(progress.workers), "dim"))
    if progress.failed:
        parts.append(say(f"{progress.failed} failed", "red"))
    return parts


def summary_words(result: MapResult) -> str:
    """`119 of 120 items done in 39 s on GPU 0, 1 (3.1/s); 1 failed`."""
    progress = result.progress
    text = f"{progress.done} of {progress.total} items done in {measured_seconds(progress.seconds)}"
    text += f" on {where(result.used)}" if result.used else ""
    if progress.done and progress.seconds > 0:
        text += f" ({rate(progress.done / progress.seconds)})"
    if progress.failed:
        text += f"; {progress.failed} failed"
    rest = progress.total - progress.ended
    return f"{text}; {rest} not begun" if rest else text


def where(labels: Sequence[str]) -> str:
    """`GPU 0, 1 (2 workers each)`, `3 workers without a GPU`."""
    found = sorted(set(labels), key=_order)
    if found == [NO_GPU]:
        return f"{len(labels)} worker{'' if len(labels) == 1 else 's'} without a GPU"
    names = ", ".join(found[:MOST_NAMED]) + (", …" if len(found) > MOST_NAMED else "")
    several = f" ({len(labels)} workers)" if len(labels) > len(found) else ""
    return f"GPU {names}{several}"


def _order(label: str) -> tuple[int, str]:
    head = label.partition(",")[0].partition(":")[0]
    return (int(head) if head.isdecimal() else 0), label


def rate(per_second: float) -> str:
    """Items a second, or a minute where that is more readable."""
    if per_second >= 1:
        return f"{fixed(per_second, 1)}/s"
    return f"{fixed(per_second * 60, 1)}/min"


def scaling_lines(steps: Sequence[ScalingStep]) -> list[Text]:
    """A row for each number of workers."""
    lines = [say(" WORKERS   ITEMS/S  EFFICIENCY  GPU BUSY  CPU", "bold")]
    for step in steps:
        share = efficiency(step, steps[0])
        lines.append(
            say(
                f"{step.workers:>8}  {step.per_second:>8.2f}"
                f"  {_percent(None if share is None else 100 * share):>10}"
                f"  {_percent(step.utilization_percent):>8}  {_percent(step.cpu_percent):>5}"
            )
        )
    if (why := held_back_by(steps)) is not None:
        lines.append(say(why))
    return lines


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{fixed(value)} %"
