"""Size of the same series in Debian's Prometheus, whose own tool makes a block of them."""

import re
import shutil
import subprocess
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from msgspec import Struct

from andon.history.rules.series import Key, NodeReadings, scale_of

BLOCK_SECONDS = 7200  # the smallest block that Prometheus writes
TOOL = "promtool"


class Block(Struct, frozen=True):
    """The size of a block, and its number of values."""

    values: int
    chunk_bytes: int
    index_bytes: int

    def __str__(self) -> str:
        each = ((self.chunk_bytes + self.index_bytes) / self.values, self.chunk_bytes / self.values)
        return f"{each[0]:.3f} bytes per value ({each[1]:.3f} without its index)"


@dataclass
class Series:
    """The first two hours of the day, as they are written to the store."""

    times: dict[Key, "array[int]"] = field(default_factory=dict)
    values: dict[Key, "array[int]"] = field(default_factory=dict)

    def add(self, tick: NodeReadings) -> None:
        for device, metrics, values in tick.readings:
            for metric, value in zip(metrics, values, strict=True):
                key = (device, metric)
                self.times.setdefault(key, array("q")).append(tick.at_ms)
                self.values.setdefault(key, array("q")).append(value)

    @property
    def count(self) -> int:
        return sum(map(len, self.values.values()))


def is_here() -> bool:
    return shutil.which(TOOL) is not None


def block(series: Series, folder: Path) -> Block:
    """One block, as Prometheus would have written it after two hours of scraping."""
    text, out = folder / "series.txt", folder / "blocks"
    with text.open("w", encoding="utf-8") as file:
        file.writelines(_exposition(series))
    command = [TOOL, "tsdb", "create-blocks-from", "openmetrics", str(text), str(out)]
    subprocess.run(command, check=True, capture_output=True)
    written = [path.parent for path in out.glob("*/meta.json")]
    values = sum(_samples(path / "meta.json") for path in written)
    assert values == series.count, f"{values} of {series.count} came in"
    chunks = sum(path.stat().st_size for path in out.glob("*/chunks/*"))
    index = sum(path.stat().st_size for path in out.glob("*/index"))
    return Block(values, chunks, index)


def _samples(meta: Path) -> int:
    found = re.search(r'"numSamples":\s*(\d+)', meta.read_text(encoding="utf-8"))
    assert found, meta
    return int(found[1])


def _exposition(series: Series) -> Iterator[str]:
    """Family by family and series by series, in the units that a scrape would have."""
    for metric in sorted({metric for _, metric in series.values}):
        yield f"# TYPE andon_{metric} unknown\n"
        scale = scale_of(metric)
        for (device, name), values in series.values.items():
            if name == metric:
                start = f'andon_{metric}{{device="{device}"}}'
                for at_ms, value in zip(series.times[device, name], values, strict=True):
                    shown = value if scale == 1 else value / scale
                    yield f"{start} {shown} {at_ms / 1000:.3f}\n"
    yield "# EOF\n"
