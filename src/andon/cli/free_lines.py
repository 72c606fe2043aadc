"""Which devices are free, as the lines under the table of `andon status`."""

from collections.abc import Mapping
from typing import NamedTuple

from andon.cli.show.cells import WITHHELD
from andon.cli.show.text import UNKNOWN, Text, say
from andon.model.device import Snapshot
from andon.model.naming import device_labels, range_of
from andon.model.verdict import DeviceVerdict, VerdictKind


class KnownVerdicts(NamedTuple):
    """The verdict on each device; or why there is none, where devices can be leased at all."""

    verdicts: Mapping[str, DeviceVerdict] = {}
    unknown: str | None = None
    leasable: bool = True


def availability_lines(found: KnownVerdicts, shown: Snapshot) -> list[Text]:
    """`not free: GPU 5 (held by alice)` and `free: GPU 4, 6`."""
    if not found.leasable or not shown.devices:
        return []
    if found.unknown is not None:
        return [say("free: ", "dim") + say(f"not known: {found.unknown}", "yellow")]
    return [*_taken(found.verdicts, shown), _free(found.verdicts, device_labels(shown.devices))]


def _taken(found: Mapping[str, DeviceVerdict], shown: Snapshot) -> list[Text]:
    """The devices that look idle in the table and are not available, each with the reason."""
    labels, names = device_labels(shown.devices), dict[str, list[str]]()
    for status in shown.devices:
        one = found.get(status.device.uuid)
        if one is None or not status.answered or status.processes:
            continue
        if one.kind is VerdictKind.HELD:
            names.setdefault(f"held by {one.by or UNKNOWN}", []).append(labels[one.uuid])
        elif one.code in WITHHELD:
            names.setdefault(WITHHELD[one.code], []).append(labels[one.uuid])
    if not names:
        return []
    parts = [f"GPU {range_of(gpus)} ({why})" for why, gpus in names.items()]
    return [say("not free: ", "dim") + say(", ".join(parts))]


def _free(found: Mapping[str, DeviceVerdict], labels: Mapping[str, str]) -> Text:
    known = [label for uuid, label in labels.items() if uuid in found]
    free = [
        label
        for uuid, label in labels.items()
        if uuid in found and found[uuid].kind is VerdictKind.FREE
    ]
    if labels and not known:
        return say("free: ", "dim") + say("unknown: the server does not report it", "yellow")
    if not free:
        return say("free: ", "dim") + say("none") + say("  (andon free says why)", "dim")
    return say("free: ", "dim") + say(f"GPU {range_of(free)}", "bold green")
