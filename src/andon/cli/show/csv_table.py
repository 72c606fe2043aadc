"""Tables as CSV: a column is a name and what is in its cells; an empty cell is unknown."""

import csv
import io
from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter, itemgetter
from typing import Any, Generic, TypeVar

from andon.cli.show.text import harmless
from andon.model.device import SAMPLE_VALUES, DeviceStatus, Snapshot
from andon.units import iso_utc

R = TypeVar("R")
FORMULA = frozenset("=+-@＝＋－＠")


class CsvTable(Generic[R]):
    """The columns of one kind of rows, by their names."""

    def __init__(self, columns: Mapping[str, Callable[[R], object]]) -> None:
        self.header = csv_line(columns)
        self._cells = tuple(columns.values())

    def line(self, row: R) -> str:
        return csv_line([cell(row) for cell in self._cells])

    def text(self, rows: Iterable[R]) -> str:
        """Returns the header and a line for each row."""
        return self.header + "".join(map(self.line, rows))


def attributes(
    names: Iterable[str], of: Callable[[R], object] = lambda row: row
) -> dict[str, Callable[[R], object]]:
    """Returns columns that are attributes of a row, or of a part of it; empty where that is
    missing."""

    def column(name: str) -> Callable[[R], object]:
        read = attrgetter(name)
        return lambda row: None if (part := of(row)) is None else read(part)

    return {name: column(name) for name in names}


def items(names: Iterable[str]) -> dict[str, Callable[[Mapping[str, Any]], object]]:
    """Returns columns that are the items of a row."""
    return {name: itemgetter(name) for name in names}


def csv_line(values: Iterable[object]) -> str:
    """One line with its newline; no value can break out of its cell."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow([_cell(value) for value in values])
    return out.getvalue()


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


DeviceRow = tuple[Snapshot, DeviceStatus]


def _answering(row: DeviceRow) -> DeviceStatus | None:
    return row[1] if row[1].answered else None


def _sample(row: DeviceRow) -> object:
    return row[1].sample if row[1].answered else None


def _users(row: DeviceRow) -> str:
    return " ".join(sorted({process.user for process in row[1].processes if process.user}))


_FACTS = ("index", "uuid", "vendor", "name", "pci", "parent", "memory_total_bytes")
_STATUS = ("state", "reason", "visible", "cuda_index")
DEVICES: CsvTable[DeviceRow] = CsvTable(
    {
        "at": lambda row: row[0].at,
        "at_iso": lambda row: iso_utc(row[0].at),
        "node": lambda row: row[0].node,
        **attributes(_FACTS, lambda row: row[1].device),
        **attributes(_STATUS, lambda row: row[1]),
        **attributes(("memory_percent", "power_percent"), _answering),
        **attributes(("band",), lambda row: row[1]),
        **attributes(("memory_unattributed_bytes",), _answering),
        "users": _users,
        **attributes(SAMPLE_VALUES, _sample),
    }
)
"""New readings are added at its end, so that parsing by position keeps working."""


def device_rows(snapshot: Snapshot) -> list[str]:
    """One line per device."""
    return [DEVICES.line((snapshot, status)) for status in snapshot.devices]
