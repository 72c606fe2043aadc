"""`andon cordon` and `uncordon`: take a device out of service and return it."""

import os
import time
from collections.abc import Sequence

import click

from andon.cli.options import DEVICE_FORMS, chosen, shared, with_devices
from andon.cli.show.text import styled
from andon.cli.sources import node_of
from andon.cli.terminal import Terminal
from andon.host.processes.kin import pid_scope
from andon.host.users import user_name
from andon.leases.book.lease_book import Book
from andon.leases.rules.membership import judge
from andon.model.device import Snapshot
from andon.model.lease import Cordon
from andon.model.naming import chosen_uuids, titles


@click.command()
@with_devices(f"The GPUs: {DEVICE_FORMS}.", required=True)
@click.option("--reason", default="", metavar="TEXT", help="Reason shown to users.")
@shared
def cordon(devices: list[str], reason: str) -> int:
    """Take a GPU out of service; a current holder keeps it until the lease ends.

    Only root and the owner of the lease book may do this. A reboot, which empties /run, ends it.
    """
    snapshot, book = node_of(chosen()).live.read(), Book()
    users = _users(book, snapshot)
    for uuid, title in _named(snapshot, devices).items():
        book.cordon(Cordon(uuid, time.time(), user_name(os.getuid()), reason[:200]))
        Terminal.of(chosen()).print(styled(cordoned_text(title, users.get(uuid))))
    return 0


def cordoned_text(title: str, holder: str | None) -> str:
    """`GPU 7 is cordoned (dora keeps it until the lease ends)`."""
    until = "" if holder is None else f" ({holder} keeps it until the lease ends)"
    return f"{title} is cordoned{until}"


@click.command()
@with_devices(f"The GPUs: {DEVICE_FORMS}.", required=True)
@shared
def uncordon(devices: list[str]) -> int:
    """Return a GPU to service."""
    book = Book(make=False)
    for uuid, title in _named(node_of(chosen()).live.read(), devices).items():
        state = "is back in service" if book.uncordon(uuid) else "was not cordoned"
        Terminal.of(chosen()).print(styled(f"{title} {state}"))
    return 0


def _named(snapshot: Snapshot, names: Sequence[str]) -> dict[str, str]:
    """The titles of the named devices by UUID."""
    uuids = chosen_uuids(snapshot, names)
    return {uuid: title for uuid, title in titles(snapshot.devices).items() if uuid in uuids}


def _users(book: Book, snapshot: Snapshot) -> dict[str, str]:
    """The users who hold a lease on a device, by its UUID."""
    claims = judge(book.entries(), snapshot.devices, {}, pid_scope())
    return {s.uuid: claim.user for claim in claims if claim.lease for s in claim.lease.shares}
