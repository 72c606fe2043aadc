"""`sudo andon setup`: the machine's lease book, now and at every boot; --system; --slurm."""

import os
from pathlib import Path

import click

from andon.cli.commands.setup.slurm import setup_slurm
from andon.cli.commands.setup.system import setup_system
from andon.cli.options import chosen, shared
from andon.cli.show.text import styled
from andon.cli.terminal import Terminal, notice
from andon.errors import AndonError, Denied
from andon.host.system_files import TMPFILES, SystemFiles, wanted_files
from andon.host.users import user_name
from andon.leases.book import places
from andon.leases.book.sweeping import clear
from andon.units import counted


@click.command()
@click.option(
    "--slurm",
    is_flag=True,
    help="Print a prolog and an epilog that check the GPUs of each Slurm job.",
)
@click.option("--write", is_flag=True, help="With --slurm: write them beside slurm.conf.")
@click.option("--system", is_flag=True, help="Also write units of systemd; asks first.")
@click.option("--yes", "-y", is_flag=True, help="With --system: do not ask.")
@click.option("--dry-run", is_flag=True, help="With --system: show the files, change nothing.")
@click.option("--remove", is_flag=True, help="With --system: remove what it wrote.")
@click.option(
    "--root",
    type=click.Path(path_type=Path),
    default="/",
    metavar="DIR",
    help="With --system: write below this folder, such as of an image.",
)
@shared
def setup(slurm: bool, write: bool, system: bool, root: Path, **how: bool) -> int:
    """Create the lease book /run/andon, owned by root, now and after every reboot.

    Files that are not locked and belong to no running job are removed from it, and from the one
    in /tmp, which is no longer used. Leases also work without it, in a directory that the first
    user creates in /tmp.

    With --system it also writes units of systemd for a server, a hub, an agent and each user's
    dispatcher, and starts none of them. A file that an administrator edited is kept, and the
    difference is shown.

    With --slurm nothing of that is done: it prints what an administrator of Slurm adds on the
    nodes, so that a broken GPU drains its node with the reason, and the job goes elsewhere.
    """
    if slurm:
        return setup_slurm(Terminal.of(chosen()), write)
    if write:
        raise click.UsageError("--write is for --slurm")
    if not system and (given := [name for name, is_set in how.items() if is_set]):
        raise click.UsageError(f"--{given[0].replace('_', '-')} is for --system")
    terminal = Terminal.of(chosen())
    if system:
        done = setup_system(terminal, root, **how)
        if not done:
            notice("nothing was changed", chosen())
        if not done or how["dry_run"] or how["remove"] or root != Path("/"):
            return 0
    elif os.getuid() != 0:
        raise Denied("only root can create the machine's lease book", hint="sudo andon setup")
    _make_book(terminal)
    if not system:
        _keep_book(terminal)
    return 0


def _make_book(terminal: Terminal) -> None:
    places.prepare(places.SYSTEM_BOOK)
    places.prepare_reservations(places.SYSTEM_BOOK)
    terminal.print(styled(f"{places.SYSTEM_BOOK} is the lease book of this machine"))
    for path in dict.fromkeys((places.SYSTEM_BOOK, places.COMMON_BOOK)):
        if places.is_folder(path):
            terminal.print(*map(styled, _swept(path)))


def _keep_book(terminal: Terminal) -> None:
    """Writes the rules of systemd-tmpfiles that make the book again at every boot."""
    if not Path(TMPFILES).parent.is_dir():
        text = "systemd was not found: run andon setup again after a reboot"
        terminal.print(styled(text, "yellow"))
        return
    files = SystemFiles(Path("/"), {TMPFILES: wanted_files("")[TMPFILES]})
    for path in files.to_write():
        files.write(path)
    terminal.print(styled(f"{TMPFILES} creates it again after a reboot"))


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
