"""The samples of a run as CSV, beside its record."""

from collections.abc import Callable, Collection
from pathlib import Path

from msgspec.structs import replace

from andon.cli.show import csv_rows
from andon.model.device import Snapshot
from andon.runs.line_pipe import LinePipe


class CsvCopy:
    """The same samples as CSV, beside the record."""

    def __init__(self, path: Path, uuids: Collection[str], notify: Callable[[str], None]) -> None:
        self._file, self._uuids = LinePipe(path, notify), uuids
        self._file.put(csv_rows.header())

    def __call__(self, snapshot: Snapshot) -> None:
        mine = tuple(s for s in snapshot.devices if s.device.uuid in self._uuids)
        for row in csv_rows.device_rows(replace(snapshot, devices=mine)):
            self._file.put(row)

    def close(self) -> None:
        self._file.close()
