"""`andon status`: one line per device, now."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click
from msgspec import to_builtins

from andon.cli.options import chosen, elsewhere, fresh_option, shared, with_devices
from andon.cli.show.entries import only_visible as seen
from andon.cli.sources import exit_code, is_leasable, node_of
from andon.cli.status_table import print_status
from andon.cli.terminal import Choices, Terminal
from andon.errors import AndonError
from andon.model import wire
from andon.model.device import Snapshot
from andon.model.naming import narrowed
from andon.node.local import LocalNode

if TYPE_CHECKING:
    from andon.node.port import Node


@click.command()
@with_devices()
@click.option("--json", "as_json", is_flag=True, help="Print andon.snapshot/1: UTC, bytes.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV, one row per device.")
@click.option("--only-visible", is_flag=True, help="Leave out devices hidden by a mask.")
@click.option("--verbose", "-v", is_flag=True, help="Say why each missing value is missing.")
@click.option("--judged", is_flag=True, hidden=True)  # for an andon elsewhere, not for people
@fresh_option
@elsewhere
@shared
def status(
    devices: list[str],
    as_json: bool,
    as_csv: bool,
    only_visible: bool,
    verbose: bool,
    judged: bool,
) -> int:
    """Print one line per device: utilisation, memory, temperature, power, and who uses it.

    The last line says which GPUs are free to use. A dash is a value that the device does not
    report; 0 % is a reading. Wider terminals show more columns; from 160 on also values that need a
    second reading: SM activity, and the traffic over PCIe and NVLink. The exit code is 0 if a
    device responds or is asleep, else 3.
    """
    if as_json and as_csv:
        raise click.UsageError("--json and --csv cannot be combined")
    if as_json:
        return _print_json(chosen(), devices, only_visible, judged)
    return print_status(chosen(), devices, as_csv, only_visible, verbose)


def _print_json(choices: Choices, devices: Sequence[str], only_visible: bool, judged: bool) -> int:
    """Prints `andon.snapshot/1`; returns the exit code. `judged`: with what `andon status --ssh`
    shows besides."""
    terminal, node = Terminal.of(choices), node_of(choices)
    snapshot = node.live.latest()
    shown = narrowed(snapshot, devices)
    if only_visible:
        shown = seen(shown)
    value = {**wire.snapshot_to_json(shown), **(_judged(node, snapshot) if judged else {})}
    text = wire.dumps(value, indented=True) if terminal.live else wire.struct_text(value)
    terminal.show_data(f"{text}\n")
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
