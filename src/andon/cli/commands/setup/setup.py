"""`sudo andon setup`: creates the machine's lease book, now and at every boot; --slurm."""

import os
from pathlib import Path

import click

from andon.cli.commands.setup.slurm import setup_slurm
from andon.cli.options import chosen, shared
from andon.cli.show.text import styled
from andon.cli.terminal import Terminal
from andon.errors import AndonError, Denied, Unavailable
from andon.host.files import replace_file
from andon.host.users import user_name
from andon.leases.book import places
from andon.leases.book.sweeping import clear
from andon.units import counted

TMPFILES = Path("/etc/tmpfiles.d/andon.conf")
RULES = """\
# Made by `andon setup`: the lease book, which every user of the GPUs must be able to see.
d /run/andon 0755 root root -
d /run/andon/leases 1777 root root -
d /run/andon/tickets 1777 root root -
d /run/andon/cordons 0755 root root -
"""


@click.command()
@click.option(
    "--slurm",
    is_flag=True,
    help="Print a prolog and an epilog that check the GPUs of each Slurm job.",
)
@click.option("--write", is_flag=True, help="With --slurm: write them beside slurm.conf.")
@shared
def setup(slurm: bool, write: bool) -> int:
    """Create the lease book /run/andon, owned by root, now and after every reboot.

    Files that are not locked and belong to no running job are removed from it, and from the one
    in /tmp, which is no longer used. Leases also work without it, in a directory that the first
    user creates in /tmp.

    With --slurm nothing of that is done: it prints what an administrator of Slurm adds on the
    nodes, so that a broken GPU drains its node with the reason, and the job goes elsewhere.
    """
    if slurm:
        return setup_slurm(Terminal.of(chosen()), write)
    if write:
        raise click.UsageError("--write is for --slurm")
    if os.getuid() != 0:
        raise Denied("only root can create the machine's lease book", hint="sudo andon setup")

    terminal = Terminal.of(chosen())
    places.prepare(places.SYSTEM_BOOK)
    places.prepare_reservations(places.SYSTEM_BOOK)
    terminal.print(styled(f"{places.SYSTEM_BOOK} is the lease book of this machine"))
    for path in dict.fromkeys((places.SYSTEM_BOOK, places.COMMON_BOOK)):
        if places.is_folder(path):
            terminal.print(*map(styled, _swept(path)))
    if TMPFILES.parent.is_dir():
        try:
            replace_file(TMPFILES, RULES.encode(), 0o644)
        except OSError as exc:
            raise Unavailable(f"{TMPFILES}: {exc.strerror}") from exc
        terminal.print(styled(f"{TMPFILES} creates it again after a reboot"))
    else:
        terminal.print(
            styled("systemd was not found: run andon setup again after a reboot", "yellow")
        )
    return 0


def _swept(path: Path) -> list[str]:
    """Returns the lines about files removed from a book, and about leases still held in one that
    is no longer used."""
    try:
        done, owner = clear(path), path.stat().st_uid
    except (AndonError, OSError) as exc:
        return [f"{path} was not cleared: {getattr(exc, 'reason', exc)}"]
    lines = [f"{path}: removed {done.removed} unused files"] if done.removed else []
    if done.held and path != places.SYSTEM_BOOK and owner != 0:
        leases = counted(done.held, "lease")
        lines.append(f"{path} of {user_name(owner)} is no longer used; it still has {leases}")
    return lines
