"""Phrases that the sentences of several conditions share."""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from andon.explain.conditions.condition import AlertFacts, Recovery, Sentence
from andon.explain.conditions.track import Track
from andon.explain.evidence.blame import ranked_processes
from andon.explain.evidence.forecast import Arrival
from andon.model.device import DeviceStatus, Process, Snapshot, party
from andon.model.event import Party
from andon.model.thresholds import Thresholds
from andon.units import human_seconds

MOST_PARTIES = 5


class Reported(NamedTuple):
    """What was reported, as text, and what to do about it."""

    reason: str | None
    hint: str | None = None


def lately(about: object, reasons: Iterable[str]) -> str:
    """`, 40 % of the last hour` one of the reasons was active; empty if that is unknown."""
    share = about.held_back_percent(reasons) if isinstance(about, Track) else None
    if not isinstance(about, Track) or share is None:
        return ""
    known = about.readings[-1][0] - about.readings[0][0]
    if known < 1:
        return ""
    span = "hour" if known > 3500 else human_seconds(known)
    return f", {share:.0f} % of the last {span}"


def last_hour(about: object, reasons: Iterable[str]) -> dict[str, float | str]:
    """Returns the last hour as evidence."""
    share = about.held_back_percent(reasons) if isinstance(about, Track) else None
    return {} if share is None else {"last_hour_percent": share}


def valued(template: str) -> Sentence:
    """A sentence with the subject, its value and the threshold, both in percent."""

    def sentence(facts: AlertFacts) -> str:
        found = facts.finding
        return template.format(
            it=facts.it, now=percent(found.value), least=percent(found.threshold)
        )

    return sentence


def reported(start: str) -> Sentence:
    """A sentence that continues with what was reported."""

    def sentence(facts: AlertFacts) -> str:
        about = facts.finding.about
        reason = about.reason if isinstance(about, Reported) else None
        return start.format(it=facts.it) + (f": {reason}" if reason else "")

    return sentence


def hinted(facts: AlertFacts) -> str | None:
    """The hint that came with what was reported."""
    about = facts.finding.about
    return about.hint or None if isinstance(about, Reported) else None


def reading(name: str) -> Callable[[DeviceStatus | None, Snapshot], float | None]:
    """Returns a function for the current value of a reading, or one derived from readings."""

    def measure(status: DeviceStatus | None, snapshot: Snapshot) -> float | None:
        if status is None or not status.answered:
            return None
        value: float | None = getattr(status.sample, name, None)
        return getattr(status, name, None) if value is None else value

    return measure


def was(what: str, unit: str, subject: str = "{it}") -> Callable[[Recovery], str]:
    """A sentence about a recovery: `GPU 3 was too hot (99 °C); now 82 °C, clears in 80 s`."""

    def sentence(recovery: Recovery) -> str:
        worst = "" if recovery.worst is None else f" ({recovery.worst:.0f} {unit})"
        now = "; " if recovery.value is None else f"; now {recovery.value:.0f} {unit}, "
        return f"{subject.format(it=recovery.it)} was {what}{worst}{now}{clears(recovery)}"

    return sentence


def clears_below(figure: str, by: float) -> Callable[[Thresholds], Mapping[str, float | str]]:
    """Returns the function for the number `clear`: so much below a figure a condition ends."""
    return lambda figures: {"clear": getattr(figures, figure) - by}


def clears(recovery: Recovery) -> str:
    """`clears in 80 s`; `clears after 2 min` if it is not clear yet."""
    left = recovery.clears_in_seconds
    if left is not None:
        return f"clears in {human_seconds(left)}"
    return f"clears after {human_seconds(recovery.clear_seconds)}"


def span_of(when: Arrival) -> str:
    """`about 40 min (35 min to 47 min)`: the best estimate, the earliest and the latest."""
    early, late = human_seconds(when.earliest_seconds), human_seconds(when.latest_seconds)
    guess = f"about {human_seconds(when.seconds)}"
    return guess if early == late else f"{guess} ({early} to {late})"


def bounds_of(name: str, when: Arrival) -> dict[str, float | str]:
    return {
        f"{name}_seconds": round(when.seconds),
        f"{name}_earliest_seconds": round(when.earliest_seconds),
        f"{name}_latest_seconds": round(when.latest_seconds),
    }


def percent(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.0f} %"


def parties(processes: Iterable[Process]) -> tuple[Party, ...]:
    """Returns who is affected; blamed processes come first."""
    ranked = ranked_processes(processes)[:MOST_PARTIES]
    return tuple(party(process) for process in ranked)
