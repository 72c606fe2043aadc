"""`andon why 3 --at 03:10`: what changed around a time, by what was recorded."""

import time

from andon.cli.commands.watch.history import recorded_device
from andon.cli.moments import moment
from andon.cli.options import chosen
from andon.cli.show.render import paragraph
from andon.cli.show.reports.figures import when
from andon.cli.show.text import Text, styled
from andon.cli.sources import node_of
from andon.cli.terminal import Terminal
from andon.history.rules.changes import Change, ChangeKind, ChangeList
from andon.history.rules.series import HOST
from andon.model.codec import document
from andon.model.device import Device
from andon.model.naming import recorded_label, title
from andon.node.changes import changes_of
from andon.units import counted, human_seconds

NOTHING = "nothing else changed that is recorded"
_STYLES = {ChangeKind.ALERT: "yellow", ChangeKind.DRIVER: "yellow", ChangeKind.NOTE: "bold"}


def why_then(name: str, when_text: str, seconds: float, as_json: bool) -> int:
    """Prints what changed in this range around a time against the one before it."""
    at = moment(when_text)
    node, terminal = node_of(chosen()), Terminal.of(chosen())
    device = None if name == HOST else recorded_device(list(node.past.devices()), name)
    until = min(at + seconds / 2, time.time())
    uuid = HOST if device is None else device.uuid
    found = changes_of(node, uuid, at - seconds / 2, until)
    if as_json:
        terminal.show_json(document(found))
    else:
        terminal.print(*rendered(found, device, terminal.width))
    return 0


def rendered(found: ChangeList, device: Device | None, width: int) -> list[Text]:
    """The range, and a line for each change, the greatest first."""
    name = HOST if device is None else title(recorded_label(device), device.name)
    span = human_seconds(found.until - found.since)
    head = f"{name}, {when(found.since)} to {when(found.until)}, against the {span} before"
    lines = [styled(head, "bold").fit(width)]
    if not found.changes:
        lines.append(styled(NOTHING))
    for one in found.changes:
        lines += paragraph(f"{_when(one)}  {one.text}", width, _STYLES.get(one.kind, ""), 12)
    if found.more:
        lines.append(styled(f"and {counted(found.more, 'smaller change')}", "dim"))
    for reason in found.unknown:
        lines += paragraph(f"not compared: {reason}", width, "dim")
    return lines


def _when(change: Change) -> str:
    at = "" if change.at is None else time.strftime("%H:%M:%S", time.localtime(change.at))
    return f"  {at:8}"
