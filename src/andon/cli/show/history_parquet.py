"""History, and samples of runs, as typed Parquet files."""

from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from andon.cli.outfile import replacing
from andon.errors import Unavailable
from andon.model.wire import Json

if TYPE_CHECKING:
    import pyarrow

HISTORY: Mapping[str, str] = {
    "device": "string", "index": "int32", "metric": "string", "since": "time", "until": "time",
    "count": "int64", "min": "float64", "mean": "float64", "max": "float64",
}  # fmt: skip
USAGE: Mapping[str, str] = {
    "device": "string", "pid": "int64", "started": "time", "user": "string", "name": "string",
    "first": "time", "last": "time", "peak_memory_bytes": "int64",
}  # fmt: skip
MILLISECONDS = 1000
BATCH_ROWS = 10_000


def check_packages() -> None:
    """Fails early if a package is missing, before anything is read."""
    if find_spec("pyarrow") is None:
        raise Unavailable("Parquet needs pyarrow, which is not installed", hint=_INSTALL)


def write(path: Path, rows: Iterable[Json], columns: Mapping[str, str], schema: str) -> int:
    """Write all rows or none; returns their number."""
    from pyarrow import parquet

    table = _table(list(rows), columns, schema)
    with replacing(path) as unfinished:
        parquet.write_table(table, unfinished, compression="zstd")
    return int(table.num_rows)


def write_batches(
    file: BinaryIO, rows: Iterable[Json], columns: Mapping[str, str], schema: str
) -> int:
    """Write rows as they come, some thousand at a time; returns their number."""
    from pyarrow import parquet

    empty, count = _table([], columns, schema), 0
    left = iter(rows)
    with parquet.ParquetWriter(file, empty.schema, compression="zstd") as writer:
        while batch := list(islice(left, BATCH_ROWS)):
            writer.write_table(_table(batch, columns, schema))
            count += len(batch)
    return count


def _table(rows: list[Json], columns: Mapping[str, str], schema: str) -> "pyarrow.Table":
    import pyarrow

    form = pyarrow.schema(
        [(name, _type(kind)) for name, kind in columns.items()], metadata={"schema": schema}
    )
    arrays = [
        pyarrow.array([_value(row[name], kind) for row in rows], _type(kind))
        for name, kind in columns.items()
    ]
    return pyarrow.Table.from_arrays(arrays, schema=form)


def _type(kind: str) -> "pyarrow.DataType":
    import pyarrow

    if kind == "time":
        return pyarrow.timestamp("ms", tz="UTC")
    return getattr(pyarrow, kind)()


def _value(value: object, kind: str) -> object:
    if kind == "time" and isinstance(value, int | float):
        return round(value * MILLISECONDS)
    return value


_INSTALL = "pip install 'andon[parquet]'"
