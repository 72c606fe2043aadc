"""`andon status --json`: the snapshot, without anything that a table needs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import to_builtins

from andon.cli.show.entries import only_visible as seen
from andon.cli.sources import exit_code, is_leasable, node_of
from andon.cli.terminal import Choices, Terminal
from andon.errors import AndonError
from andon.model import wire
from andon.model.device import Snapshot
from andon.model.naming import narrowed
from andon.node.local import LocalNode

if TYPE_CHECKING:
    from andon.node.port import Node


def print_json(
    choices: Choices,
    devices: Sequence[str] = (),
    only_visible: bool = False,
    judged: bool = False,
) -> int:
    """Prints `andon.snapshot/1`; returns the exit code. `judged`: with what `andon status --ssh`
    shows besides."""
    terminal, node = Terminal.of(choices), node_of(choices)
    snapshot = node.live.latest()
    shown = narrowed(snapshot, devices)
    if only_visible:
        shown = seen(shown)
    value = {**wire.snapshot_to_json(shown), **(_judged(node, snapshot) if judged else {})}
    text = wire.dumps(value, indented=True) if terminal.live else wire.struct_text(value)
    terminal.show(f"{text}\n")
    return exit_code(shown)


def _judged(node: "Node", snapshot: Snapshot) -> wire.Json:
    """Returns verdicts and lamps, where more than the readings and the usual thresholds decide:
    without them whoever asks comes to the same, and this machine is spared the work."""
    assert isinstance(node, LocalNode)
    found: wire.Json = {"verdicts": [], "lamps": node.live.lamps_beyond_readings(snapshot)}
    if is_leasable(snapshot):
        try:
            found["verdicts"] = node.leases.beyond_readings(snapshot)
        except (AndonError, OSError) as error:
            found["unknown"] = getattr(error, "reason", str(error))
    return {"judged": to_builtins(found)}
