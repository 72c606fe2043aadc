"""`andon cordon` and `uncordon`: a device that is given to nobody, because somebody said so."""

import os
import time

import click

from andon.cli.options import chosen, shared
from andon.cli.show.text import say
from andon.cli.snapshot_source import chosen_uuids, look
from andon.cli.terminal import Terminal


@click.command()
@click.argument("devices", metavar="DEVICE…", nargs=-1, required=True)
@click.option("--reason", default="", metavar="TEXT", help="Reason shown to users.")
@shared
def cordon(devices: tuple[str, ...], reason: str) -> int:
    """Take a GPU out of service; who holds it keeps it until their lease ends.

    For root and the owner of the lease book. A reboot, which empties /run, takes it away.
    """
    from andon.host.kin import user_name
    from andon.leases.book import Book
    from andon.model.work import Cordon

    uuids = sorted(chosen_uuids(look(chosen()), devices))
    book = Book()
    for uuid in uuids:
        book.cordon(Cordon(uuid, time.time(), user_name(os.getuid()), reason[:200]))
        Terminal.of(chosen()).say(say(f"{uuid} is given to nobody"))
    return 0


@click.command()
@click.argument("devices", metavar="DEVICE…", nargs=-1, required=True)
@shared
def uncordon(devices: tuple[str, ...]) -> int:
    """Return a GPU to service."""
    from andon.leases.book import Book

    uuids = sorted(chosen_uuids(look(chosen()), devices))
    book = Book(make=False)
    for uuid in uuids:
        words = "is given out again" if book.uncordon(uuid) else "was not cordoned"
        Terminal.of(chosen()).say(say(f"{uuid} {words}"))
    return 0
