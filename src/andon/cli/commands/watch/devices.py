"""`andon devices`: static information about each device."""

import click

from andon.cli import snapshot_source
from andon.cli.commands.watch.status import as_json_text, exit_code
from andon.cli.options import chosen, elsewhere, shared, with_devices
from andon.cli.show.facts import devices_to_json, render_devices
from andon.cli.snapshot_source import narrowed
from andon.cli.terminal import Terminal


@click.command()
@with_devices()
@click.option("--json", "as_json", is_flag=True, help="Print andon.devices/1: bytes.")
@elsewhere
@shared
def devices(devices: list[str], as_json: bool) -> int:
    """Print each device's identity and limits, and why a backend found nothing.

    Use the UUID in CUDA_VISIBLE_DEVICES: unlike an index, it always means the same device.
    """
    snapshot = narrowed(snapshot_source.take_snapshot(chosen()), devices)
    terminal = Terminal.of(chosen())
    if as_json:
        terminal.show(as_json_text(devices_to_json(snapshot), terminal.live))
    else:
        terminal.show(render_devices(snapshot, terminal.width, terminal.color))
    return exit_code(snapshot)
