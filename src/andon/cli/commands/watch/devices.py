"""`andon devices`: static information about each device."""

import click

from andon.cli.options import chosen, elsewhere, fresh_option, shared, with_devices
from andon.cli.show.facts import devices_to_json, render_devices
from andon.cli.show.topology import render_topology
from andon.cli.sources import exit_code, node_of
from andon.cli.status_table import mask_of
from andon.cli.terminal import Terminal
from andon.model.links import topology_to_json
from andon.model.naming import narrowed


@click.command()
@with_devices()
@click.option("--json", "as_json", is_flag=True, help="Print andon.devices/1: bytes.")
@click.option("--topology", is_flag=True, help="How they are linked: NVLink, PCIe, NUMA.")
@fresh_option
@elsewhere
@shared
def devices(devices: list[str], as_json: bool, topology: bool) -> int:
    """Print each device's identity and limits, and why a backend found nothing.

    Use the UUID in CUDA_VISIBLE_DEVICES: unlike an index, it always means the same device.
    --topology prints how the devices are linked (with --json: andon.topology/1).
    """
    if topology:
        return _topology(devices, as_json)
    node = node_of(chosen())
    whole = node.live.latest()
    snapshot, terminal = narrowed(whole, devices), Terminal.of(chosen())
    if as_json:
        terminal.show_json(devices_to_json(snapshot))
    else:
        mask = mask_of(whole, node)
        terminal.print(*render_devices(snapshot, terminal.width, mask))
    return exit_code(snapshot)


def _topology(devices: list[str], as_json: bool) -> int:
    snapshot, terminal = narrowed(node_of(chosen()).live.placed(), devices), Terminal.of(chosen())
    if as_json:
        terminal.show_json(topology_to_json(snapshot))
    elif snapshot.devices:
        terminal.print(*render_topology(snapshot, terminal.width))
    else:
        terminal.print(*render_devices(snapshot, terminal.width))
    return exit_code(snapshot)
