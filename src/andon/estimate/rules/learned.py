"""What earlier runs of the same command used: measured, so it is preferred to any formula."""

import re
from collections.abc import Iterable, Sequence

from msgspec import Struct

from andon.model.redaction import redact
from andon.model.run.record import RunRow, RunState

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_PARTIAL = {
    RunState.RUNNING, RunState.DEVICE_OUT_OF_MEMORY, RunState.NOT_STARTED, RunState.LOST,
    RunState.HOST_OUT_OF_MEMORY, RunState.ENDED,
}  # fmt: skip
"""Runs whose peak is not that of the whole command."""


class LearnedPeak(Struct, frozen=True):
    """The highest peak of the fullest GPU, over all runs of a command."""

    runs: int
    peak_bytes: int
    latest: float
    models: tuple[tuple[str, int], ...]  # the peak by model of GPU
    devices: int = 1  # of the latest run

    def peak_on(self, name: str, takes_share: bool) -> int | None:
        """Returns the peak to expect on a GPU of this model.

        A server that takes a share of the memory takes another amount on another model.
        """
        for model, peak in self.models:
            if model == name:
                return peak
        return None if takes_share else self.peak_bytes


def same_command(recorded: str, arguments: Sequence[str]) -> bool:
    """Whether a record is of this command, ignoring variables in front and folders of programs."""
    return bool(arguments) and _essence(recorded) == _essence(redact(tuple(arguments)))


def _essence(line: str) -> list[str]:
    arguments = line.split(" ")
    while arguments and _VARIABLE.match(arguments[0]):
        arguments.pop(0)
    return [arguments[0].rpartition("/")[2], *arguments[1:]] if arguments else []


def learned_peak(rows: Iterable[RunRow], arguments: Sequence[str]) -> LearnedPeak | None:
    """What runs of this command used; None if there are none. Simulated ones do not count."""
    found = [
        row
        for row in rows
        if row.peak_memory_bytes
        and not row.simulated
        and row.state not in _PARTIAL
        and row.command is not None
        and same_command(row.command, arguments)
    ]
    if not found:
        return None
    models: dict[str, int] = {}
    for row in found:
        for name in {device.name for device in row.devices}:
            models[name] = max(models.get(name, 0), row.peak_memory_bytes or 0)
    return LearnedPeak(
        len(found),
        max(row.peak_memory_bytes or 0 for row in found),
        max(row.began for row in found),
        tuple(sorted(models.items())),
        max(1, len(max(found, key=lambda row: row.began).devices)),
    )
