"""Snapshots as CSV: one row per device, units in the names, an empty cell for unknown."""

import csv
import io
from collections.abc import Iterable, Sequence

from andon.cli.show.text import harmless
from andon.model.device import SAMPLE_VALUES, DeviceStatus, Sample, Snapshot
from andon.units import iso_utc

FORMULA = frozenset("=+-@＝＋－＠")
_FACTS = ("index", "uuid", "vendor", "name", "pci", "parent", "memory_total_bytes")
_STATUS = ("state", "reason", "visible", "cuda_index", "memory_percent", "power_percent", "band")

COLUMNS = (
    "at", "at_iso", "node", *_FACTS, *_STATUS, "memory_unattributed_bytes", "users", *SAMPLE_VALUES,
)  # fmt: skip
"""The header. New readings are added at its end, so that parsing by position keeps working."""


def header() -> str:
    return csv_line(COLUMNS)


def device_rows(snapshot: Snapshot) -> list[str]:
    """One line per device; a device that does not respond has no readings."""
    return [csv_line(_row(snapshot, status)) for status in snapshot.devices]


def csv_line(values: Iterable[object]) -> str:
    """One line with its newline; no value can break out of its cell."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow([_cell(value) for value in values])
    return out.getvalue()


def _row(snapshot: Snapshot, status: DeviceStatus) -> Sequence[object]:
    live = status.answered
    sample = status.sample if live and status.sample else Sample(at=snapshot.at)
    shares = ("memory_percent", "power_percent")
    return [
        snapshot.at,
        iso_utc(snapshot.at),
        snapshot.node,
        *(getattr(status.device, name) for name in _FACTS),
        *(getattr(status, name) if live or name not in shares else None for name in _STATUS),
        status.memory_unattributed_bytes if live else None,
        " ".join(sorted({process.user for process in status.processes if process.user})),
        *(getattr(sample, name) for name in SAMPLE_VALUES),
    ]


def _cell(value: object) -> object:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return _text(" ".join(map(str, value)))
    return _text(value) if isinstance(value, str) else value


def _text(text: str) -> str:
    """Returns one line, and never a formula: a process name must not run in a spreadsheet."""
    plain = harmless(" ".join(text.splitlines()))
    begins = text[:1] in ("\t", "\r", "\n") or plain.lstrip()[:1] in FORMULA
    return f"'{plain}" if begins else plain
