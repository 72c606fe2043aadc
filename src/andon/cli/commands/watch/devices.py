"""`andon devices`: static information about each device."""

import click

from andon.cli import snapshot_source
from andon.cli.json_text import as_json_text
from andon.cli.options import chosen, elsewhere, fresh_option, shared, with_devices
from andon.cli.show.facts import devices_to_json, render_devices
from andon.cli.snapshot_source import narrowed
from andon.cli.status_table import exit_code
from andon.cli.terminal import Choices, Terminal
from andon.model.device import Snapshot


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
    whole = snapshot_source.current_snapshot(chosen())
    snapshot, terminal = narrowed(whole, devices), Terminal.of(chosen())
    if as_json:
        terminal.show(as_json_text(devices_to_json(snapshot), terminal.live))
    else:
        mask = snapshot_source.mask_of(whole, url=chosen().url)
        terminal.show(render_devices(snapshot, terminal.width, terminal.color, mask))
    return exit_code(snapshot)


def _topology(devices: list[str], as_json: bool) -> int:
    from andon.cli.show.topology import render_topology
    from andon.model.links import topology_to_json

    choices = chosen()
    snapshot = narrowed(_placed(choices), devices)
    terminal = Terminal.of(choices)
    if as_json:
        terminal.show(as_json_text(topology_to_json(snapshot), terminal.live))
    elif snapshot.devices:
        terminal.show(render_topology(snapshot, terminal.width, terminal.color))
    else:
        terminal.show(render_devices(snapshot, terminal.width, terminal.color))
    return exit_code(snapshot)


def _placed(choices: Choices) -> Snapshot:
    """Returns this node's or a server's devices, with their places in the machine."""
    if choices.url is None:
        with snapshot_source.sampling(choices) as sampler:
            sampler.ask_places()
            return sampler.once(with_host=False)
    from andon.model.codec import Wrong
    from andon.model.links import with_places

    remote = snapshot_source.server_of(choices, choices.url)
    snapshot = remote.once()
    try:
        return with_places(snapshot, remote.server.get("/api/topology"))
    except Wrong as exc:
        raise remote.server.of_another_version(str(exc)) from exc
