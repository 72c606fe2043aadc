"""The samples of a run as CSV, beside its record."""

from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from andon.cli.show.csv_table import DEVICES, device_rows
from andon.model.device import Snapshot
from andon.model.run.record import RunBegin
from andon.runs.line_pipe import LinePipe


class CsvCopy:
    """Writes the devices of each sample as rows."""

    def __init__(self, begin: RunBegin, record: Path, notify: Callable[[str], None]) -> None:
        self._file = LinePipe(record.with_suffix(".csv"), notify)
        self._uuids = {device.uuid for device in begin.devices}
        self._file.put(DEVICES.header)

    def __call__(self, snapshot: Snapshot) -> None:
        mine = tuple(s for s in snapshot.devices if s.device.uuid in self._uuids)
        for row in device_rows(replace(snapshot, devices=mine)):
            self._file.put(row)

    def close(self) -> None:
        self._file.close()
