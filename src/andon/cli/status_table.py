"""The table of `andon status`."""

import os
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from msgspec import Struct

from andon.cli.show.cells import WITHHELD
from andon.cli.show.entries import NO_VERDICTS
from andon.cli.show.entries import only_visible as seen
from andon.cli.show.render import Mask, paragraph, render_status
from andon.cli.show.text import UNKNOWN, WIDE, Text, styled
from andon.cli.sources import exit_code, is_leasable, node_of, rulebook_of
from andon.cli.terminal import Choices, Terminal
from andon.errors import AndonError
from andon.model.device import Snapshot
from andon.model.naming import device_labels, narrowed, range_of
from andon.model.verdict import DeviceVerdict, VerdictKind
from andon.sampling.rules.masks import visibility

if TYPE_CHECKING:
    from andon.node.port import Node

SHOWN_WITH = (
    "andon.alerts.rules.lamps_from_sample",
    "andon.app.thresholds",
    "andon.leases.book.places",
    "andon.leases.rules.verdict",
    "andon.node.local.leases",
)
HINT = "Next: andon watch (live), andon ps (processes), andon --help"


class KnownVerdicts(Struct, frozen=True):
    """The verdict on each device, or why it is unknown; neither if devices cannot be leased
    here."""

    verdicts: Mapping[str, DeviceVerdict] = NO_VERDICTS
    unknown: str | None = None
    leasable: bool = True


def print_status(
    choices: Choices,
    devices: Sequence[str] = (),
    as_csv: bool = False,
    only_visible: bool = False,
    verbose: bool = False,
) -> int:
    """Prints one line per device, now; returns the exit code."""
    node = node_of(choices)  # reads the settings, which may name the colour
    terminal = Terminal.of(choices)
    wide = terminal.width >= WIDE
    snapshot = node.live.latest(
        twice=wide and not as_csv, commands=wide or verbose or as_csv, meanwhile=_load
    )
    named = narrowed(snapshot, devices)
    shown = seen(named) if only_visible else named
    if as_csv:
        from andon.cli.show.csv_table import DEVICES

        terminal.show_data(DEVICES.text((shown, status) for status in shown.devices))
    else:
        _show(choices, node, shown, named, snapshot, terminal, verbose)
    return exit_code(shown)


def _load() -> None:
    """Import what the table needs while the driver is opened, which takes as long."""
    for module in SHOWN_WITH:
        import_module(module)


def _show(
    choices: Choices,
    node: "Node",
    shown: Snapshot,
    named: Snapshot,
    whole: Snapshot,
    terminal: Terminal,
    verbose: bool,
) -> None:
    mask = mask_of(whole, node, len(named.devices) - len(shown.devices))
    book, known, lit = rulebook_of(choices), _verdicts(node, whole), node.live.lamps(whole)
    width, now = terminal.width, time.time()
    lines = render_status(shown, width, now, verbose, mask, book, lit, known.verdicts)
    lines += [line.fit(width) for line in availability_lines(known, shown)]
    if choices.bare and terminal.live and not terminal.quiet and shown.devices:
        lines += paragraph(HINT, width, "dim")
    terminal.print(*lines)


def _verdicts(node: "Node", snapshot: Snapshot) -> KnownVerdicts:
    if not is_leasable(snapshot):
        return KnownVerdicts(leasable=False)
    try:
        return KnownVerdicts({one.uuid: one for one in node.leases.verdicts(snapshot)})
    except (AndonError, OSError) as error:
        return KnownVerdicts(unknown=getattr(error, "reason", str(error)))


def mask_of(snapshot: Snapshot, node: "Node", left_out: int = 0) -> Mask:
    """The mask that decides what this process sees; it does not apply to a server's devices."""
    if node.url is not None:
        return Mask(left_out=left_out)
    found = visibility([status.device for status in snapshot.devices], os.environ)
    return Mask(found.source, found.note, left_out, found.container)


def availability_lines(found: KnownVerdicts, shown: Snapshot) -> list[Text]:
    """`not free: GPU 5 (held by alice)` and `free: GPU 4, 6`."""
    if not found.leasable or not shown.devices:
        return []
    if found.unknown is not None:
        return [styled("free: ", "dim") + styled(f"not known: {found.unknown}", "yellow")]
    labels = device_labels(shown.devices)
    if shown.silence is not None:
        return [styled("free: ", "dim") + styled(f"not known: {shown.silence}", "yellow")]
    return [*_taken(found.verdicts, shown), _free(found.verdicts, labels)]


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
    return [styled("not free: ", "dim") + styled(", ".join(parts))]


def _free(found: Mapping[str, DeviceVerdict], labels: Mapping[str, str]) -> Text:
    known = [label for uuid, label in labels.items() if uuid in found]
    free = [
        label
        for uuid, label in labels.items()
        if uuid in found and found[uuid].kind is VerdictKind.FREE
    ]
    if labels and not known:
        return styled("free: ", "dim") + styled("unknown: the server does not report it", "yellow")
    if not free:
        return styled("free: ", "dim") + styled("none") + styled("  (andon free says why)", "dim")
    return styled("free: ", "dim") + styled(f"GPU {range_of(free)}", "bold green")
