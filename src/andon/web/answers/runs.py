"""The list of runs as each caller may see it: searched, filtered, counted and cut into pages."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from andon.core.access.roles import Sight
from andon.model.model_names import models_in_words, short_model
from andon.model.run import RunRow, RunState
from andon.model.wire import dumps
from andon.web.answers.run_schemas import Plain, RunChoice, RunChoices, RunEntry, RunPage
from andon.web.answers.sights import why_hidden

NO_DEVICES = "it used no GPU of this node"
NOT_SAMPLED = "the run ended before its devices were read"
MOST_CHOICES = 100  # of a kind: a menu with more is no help


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Which runs are wanted; empty is any."""

    search: str = ""
    model: str = ""
    tag: str = ""
    group: str = ""
    state: str = ""

    def passes(self, entry: RunEntry) -> bool:
        """By what the caller sees of it: a search must not find what is hidden."""
        return (
            (not self.model or self.model in entry.models)
            and (not self.tag or self.tag in entry.tags)
            and (not self.group or self.group == entry.group)
            and (not self.state or self.state == entry.state)
            and all(word in _words(entry) for word in self.search.lower().split())
        )


def page_of(
    entries: Sequence[RunEntry],
    wanted: RunFilter,
    offset: int,
    limit: int,
    whose: str,
    note: str | None = None,
) -> RunPage:
    """The runs that match, the latest first."""
    found = [entry for entry in entries if wanted.passes(entry)]
    found.sort(key=lambda entry: entry.began, reverse=True)
    return RunPage(
        items=found[offset : offset + limit],
        total=len(found),
        all=len(entries),
        offset=offset,
        limit=limit,
        choices=choices_of(entries),
        whose=whose,
        note=note,
    )


def choices_of(entries: Iterable[RunEntry]) -> RunChoices:
    listed = list(entries)
    return RunChoices(
        models=_counted(model for entry in listed for model in entry.models),
        tags=_counted(tag for entry in listed for tag in entry.tags),
        groups=_counted(entry.group for entry in listed if entry.group),
        states=_counted(str(entry.state) for entry in listed),
    )


def entry_of(sight: Sight, row: RunRow, now: float) -> RunEntry:
    """A run as this caller sees it: without what `ps` would not show of another's process."""
    shown = sight.shows(row.user)
    sampled = bool(row.samples) or (row.samples is None and row.state is RunState.RUNNING)
    telemetry = sampled and bool(row.devices)
    return RunEntry(
        id=row.id,
        name=row.name,
        kind=row.kind,
        state=row.state,
        node=row.node,
        user=row.user,
        began=row.began,
        ended=row.ended,
        duration_seconds=_duration(row, now),
        gpus=models_in_words(device.name for device in row.devices) or None,
        models=list(dict.fromkeys(short_model(d.name, brief=True) for d in row.devices)),
        devices=list(row.devices),
        telemetry=telemetry,
        telemetry_reason=None if telemetry else why_unsampled(row),
        samples=row.samples,
        parent=row.parent,
        group=row.group,
        rank=row.rank,
        world_size=row.world_size,
        simulated=row.simulated,
        waited_seconds=row.waited_seconds,
        exit_code=row.exit_code,
        message=row.message,
        mean_utilization_percent=row.mean_utilization_percent,
        peak_memory_bytes=row.peak_memory_bytes,
        energy_joules=row.energy_joules,
        idle_share=row.idle_share,
        tags=list(row.tags),
        note=row.note,
        last_values=row.last_values,
        params=_plainly(row.params) if shown else None,
        command=row.command if shown else None,
        hidden=None if shown else why_hidden(sight),
    )


def why_unsampled(row: RunRow) -> str:
    if row.no_samples_reason:
        return row.no_samples_reason
    return NOT_SAMPLED if row.devices else NO_DEVICES


def _duration(row: RunRow, now: float) -> float | None:
    if row.duration_seconds is None and row.state is RunState.RUNNING:
        return max(0.0, now - row.began)
    return row.duration_seconds


def _plainly(params: Mapping[str, Any]) -> dict[str, Plain]:
    """Numbers and texts as they are; anything else as its JSON."""
    return {
        str(name): value if isinstance(value, str | int | float | None) else _json(value)
        for name, value in params.items()
    }


def _json(value: object) -> str:
    return dumps({"": value})[5:-1] if isinstance(value, list | dict) else str(value)


def _words(entry: RunEntry) -> str:
    parts = [
        entry.id, entry.name, entry.user, entry.node, str(entry.kind), str(entry.state),
        entry.gpus, *(device.name for device in entry.devices), entry.group, *entry.tags,
        entry.note, entry.command, entry.message,
    ]  # fmt: skip
    return "\n".join(part for part in parts if part).lower()


def _counted(values: Iterable[str]) -> list[RunChoice]:
    """The most frequent of them, in the order of the alphabet."""
    found = Counter(values).most_common(MOST_CHOICES)
    return [RunChoice(value, count) for value, count in sorted(found)]
