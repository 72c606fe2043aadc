"""nvidia-smi's values, for comparison with the same driver."""

import shutil
import subprocess
from typing import Final

from tests.device.scenes import SkippedError

DEADLINE_SECONDS = 30.0
UNKNOWN: Final = ("", "n/a", "[n/a]", "[not supported]", "[unknown error]", "err!", "[not found]")

FIELDS: Final = (
    "uuid", "index", "name", "pci.bus_id", "driver_version", "utilization.gpu", "memory.used",
    "memory.total", "temperature.gpu", "power.draw", "enforced.power.limit", "clocks.sm",
    "clocks.mem",
)  # fmt: skip

Row = dict[str, str | None]


def ask(*arguments: str) -> str:
    """Its standard output; Skipped if it is not installed."""
    found = shutil.which("nvidia-smi")
    if found is None:
        raise SkippedError("nvidia-smi is not installed")
    done = subprocess.run(
        [found, *arguments],
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"nvidia-smi {' '.join(arguments)}: {done.stdout}{done.stderr}"
    return done.stdout


def gpus() -> dict[str, Row]:
    """Each device's row, by uuid."""
    rows = [row(line, FIELDS) for line in _csv("--query-gpu", FIELDS)]
    return {uuid: found for found in rows if (uuid := found["uuid"])}


def compute_processes() -> dict[tuple[str, int], int | None]:
    """(uuid, pid) to memory in MiB."""
    names = ("gpu_uuid", "pid", "used_gpu_memory")
    rows = [row(line, names) for line in _csv("--query-compute-apps", names)]
    return {
        (uuid, int(pid)): None if found["used_gpu_memory"] is None else int(float(memory))
        for found in rows
        if (uuid := found["gpu_uuid"]) and (pid := found["pid"])
        for memory in [found["used_gpu_memory"] or "0"]
    }


def row(line: str, names: tuple[str, ...]) -> Row:
    """One line of its CSV; unknown values are None."""
    values = [value.strip() for value in line.split(", ")]
    return {
        name: None if value.lower() in UNKNOWN else value
        for name, value in zip(names, values, strict=True)
    }


def _csv(query: str, names: tuple[str, ...]) -> list[str]:
    text = ask(f"{query}={','.join(names)}", "--format=csv,noheader,nounits")
    return [line for line in text.splitlines() if line.strip()]
