"""Puts a map together: its places, its record, its workers."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from andon.app.runs import remember
from andon.app.thresholds import rulebook
from andon.leases.placement import Placement
from andon.leases.rules.eligibility import chosen_by
from andon.model.device import Snapshot
from andon.model.redaction import redact
from andon.model.run.record import RunKind
from andon.runs.facts import find_facts
from andon.runs.header import new_run, record_path, runs_folder
from andon.runs.line_pipe import LinePipe
from andon.runs.record import RunRecorder, SampleSource
from andon.runs.rules.ranks import RUN_VARIABLE
from andon.settings.resolution import Settings

WITHOUT_DEVICE = "it works without a device"


class MapRecord(Struct, frozen=True):
    """How a map is recorded."""

    name: str
    words: Sequence[str]  # its command; none in Python
    settings: Settings
    source: SampleSource
    snapshot: Callable[[], Snapshot]
    notify: Callable[[str], None]
    variables: Mapping[str, str]
    params: Mapping[str, Any] = field(default_factory=dict)
    folder: Path | None = None
    image: str | None = None

    def open(self, places: Sequence[Placement]) -> RunRecorder:
        """Begin the record with the first devices; others may join."""
        first = places[0]
        snapshot = first.snapshot or self.snapshot()
        uuids = dict.fromkeys(device.uuid for place in places for device in place.devices)
        begin = new_run(
            RunKind.MAP,
            self.name,
            snapshot,
            uuids,
            self.variables,
            command=redact(tuple(self.words)) if self.words else None,
            params=dict(self.params),
            waited_seconds=round(first.waited_seconds, 3),
            allocation_method=chosen_by(None) if uuids else None,
        )
        path = record_path(self.folder or runs_folder(), begin.name, begin.at)
        recorder = RunRecorder(
            begin,
            LinePipe(path, self.notify),
            self.source if uuids else None,
            why_none=None if uuids else WITHOUT_DEVICE,
            book=lambda: rulebook(self.settings),
        )
        facts = list(self.words) or None
        recorder.start(lambda write: find_facts(facts, write, image=self.image))
        remember(path)
        return recorder


def told(recorder: RunRecorder) -> dict[str, str]:
    """Returns the variables for the commands of a map: the run that they are part of."""
    return {RUN_VARIABLE: recorder.begin.id}
