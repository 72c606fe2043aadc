"""`andon runs export`: a record as CSV, JSON lines or Parquet."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TextIO

import click
from msgspec import Struct

from andon.cli.commands.runs.opened import RUN_FORMS, complete_run, finding
from andon.cli.options import chosen, shared
from andon.cli.outfile import replacing
from andon.cli.show.csv_table import CsvTable, items
from andon.cli.show.history_parquet import check_packages, write_batches
from andon.cli.terminal import notice, write
from andon.errors import Invalid
from andon.model.run.record import RUN_SCHEMA, SAMPLED, RunBegin, RunLine, RunLogged, RunSample
from andon.model.run.wire import line_to_text
from andon.runs.files import lines_in, open_record, read_ends
from andon.runs.rules.curves import bucket_of
from andon.runs.rules.lines import RecordLines
from andon.units import counted, iso_utc

AT_ISO = "at_iso"  # the last column: parsing by position keeps working
FORMS = ("csv", "jsonl", "parquet")
TEXT, WHOLE, NUMBER, TIME = "string", "int64", "float64", "time"
SAMPLE_COLUMNS: Mapping[str, str] = {
    "at": TIME, "elapsed_seconds": NUMBER, "run": TEXT, "device": TEXT, "index": WHOLE,
    "label": TEXT, "model": TEXT, "state": TEXT,
    **{name: TEXT if name == "throttle" else NUMBER for name in SAMPLED},
    "cpu_percent": NUMBER,
}  # fmt: skip
"""Name → type. New readings are added at the end, so that parsing by position keeps working."""
VALUE_COLUMNS: Mapping[str, str] = {
    "at": TIME, "elapsed_seconds": NUMBER, "run": TEXT, "name": TEXT, "step": NUMBER,
    "value": NUMBER, "min": NUMBER, "mean": NUMBER, "max": NUMBER, "count": WHOLE, "gaps": WHOLE,
}  # fmt: skip
_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command(epilog=RUN_FORMS)
@click.argument("run", metavar="RUN", shell_complete=complete_run)
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMS),
    metavar="FORMAT",
    help="csv, jsonl or parquet [default: by the file's name].",
)
@click.option("--csv", "as_csv", is_flag=True, help="The same as --format csv.")
@click.option("--values", "logged", is_flag=True, help="The logged values instead of the samples.")
@click.option("--out", type=_FILE, metavar="FILE", help="Output file [default: standard output].")
@shared
def export(run: str, form: str | None, as_csv: bool, logged: bool, out: Path | None) -> int:
    """Write the samples of a run as CSV or Parquet, one row per GPU and time; or, with --values,
    what it logged, one row per name and time.

    jsonl is the record itself, with events and values, without lines that cannot be read. Numbers
    are in bytes, watts and seconds, times in UTC; CSV has them in readable form too, in its last
    column. A record of any size is read piece by piece.
    """
    if as_csv and form not in (None, "csv"):
        raise click.UsageError("--csv and --format cannot be combined")
    form = "csv" if as_csv else form or _by_name(out)
    if logged and form == "jsonl":
        raise click.UsageError("--values is for csv and parquet: jsonl is the whole record")
    table = _Exported(_values_of, VALUE_COLUMNS) if logged else _Exported(_rows_of, SAMPLE_COLUMNS)
    if form == "parquet":
        if out is None:
            raise click.UsageError("--format parquet needs --out FILE")
        check_packages()
    with finding() as finder:
        path = Path(finder.resolve(run).path)
    if out is not None and out.exists() and out.samefile(path):
        raise Invalid(f"{out} is the record itself", hint="choose another file")
    is_parquet = form == "parquet" and out is not None
    count = _parquet(path, out, table) if is_parquet and out else _text(path, form, out, table)
    if out is not None:
        notice(f"{out}: {counted(count, 'row')}", chosen())
    return 0


def _by_name(out: Path | None) -> str:
    if out is None:
        return "csv"
    form = out.suffix.lower().lstrip(".")
    if form not in FORMS:
        raise Invalid(
            f"{out}: the file name does not imply a format", hint=f"--format {', '.join(FORMS)}"
        )
    return form


def _lines(path: Path) -> Iterator[RunLine]:
    """Yields the lines of a record, piece by piece."""
    read_ends(path, 0)  # a foreign file is refused before anything is written
    reader = RecordLines()
    with open_record(path) as file:
        yield from lines_in(file, os.fstat(file.fileno()).st_size, reader)
    if reader.unreadable:
        notice(f"{reader.unreadable} lines could not be read: {reader.first_problem}", chosen())


class _Exported(Struct, frozen=True):
    """The rows of a line of the record, and their columns."""

    rows_of: Callable[[RunBegin, RunLine], Iterator[dict[str, Any]]]
    columns: Mapping[str, str]

    def rows(self, lines: Iterable[RunLine]) -> Iterator[dict[str, Any]]:
        begin: RunBegin | None = None
        for line in lines:
            if isinstance(line, RunBegin):
                begin = begin or line
            elif begin is not None:
                yield from self.rows_of(begin, line)


def _values_of(begin: RunBegin, line: RunLine) -> Iterator[dict[str, Any]]:
    """Yields a row for each name of a line of logged values."""
    if not isinstance(line, RunLogged):
        return
    for name in {**line.values, **line.gaps}:
        found = bucket_of(line, name)
        spread = (found.low, found.mean, found.high) if found.count else (None, None, None)
        yield {
            "at": line.at,
            "elapsed_seconds": round(line.at - begin.at, 3),
            "run": begin.id,
            "name": name,
            "step": line.step,
            "value": found.last,
            **dict(zip(("min", "mean", "max"), spread, strict=True)),
            "count": found.count,
            "gaps": found.gaps,
        }


def _rows_of(begin: RunBegin, sample: RunLine) -> Iterator[dict[str, Any]]:
    """Yields a row for each device and time; None for a value that is not known."""
    if not isinstance(sample, RunSample):
        return
    for device in begin.devices:
        readings = sample.devices.get(device.uuid)
        if readings is None:
            continue
        reasons = readings.get("throttle")
        yield {
            "at": sample.at,
            "elapsed_seconds": round(sample.at - begin.at, 3),
            "run": begin.id,
            "device": device.uuid,
            "index": device.index,
            "label": device.label,
            "model": device.name,
            "state": readings.get("state"),
            **{name: readings.get(name) for name in SAMPLED},
            "throttle": None if reasons is None else " ".join(reasons),
            "cpu_percent": sample.cpu_percent,
        }


def _text(path: Path, form: str, out: Path | None, exported: _Exported) -> int:
    found = _lines(path)
    if form == "jsonl":
        texts: Iterable[str] = map(line_to_text, found)
        return _pour(texts, "", out)
    table = CsvTable({**items(exported.columns), AT_ISO: lambda row: iso_utc(row["at"])})
    return _pour(map(table.line, exported.rows(found)), table.header, out)


def _pour(texts: Iterable[str], header: str, out: Path | None) -> int:
    count = 0
    with _opened(out) as put:
        put(header)
        for text in texts:
            put(text)
            count += 1
    return count


@contextmanager
def _opened(out: Path | None) -> Iterator[Any]:
    """Opens the output: a file is complete or absent; standard output is written line by line."""
    if out is None:
        yield lambda text: write(sys.stdout, text) if text else None
        return
    with replacing(out) as place:
        file: TextIO = place.open("w", encoding="utf-8")
        with file:
            yield file.write


def _parquet(path: Path, out: Path, exported: _Exported) -> int:
    with replacing(out) as place, place.open("wb") as file:
        sink: BinaryIO = file
        return write_batches(sink, exported.rows(_lines(path)), exported.columns, RUN_SCHEMA)
