"""`andon runs add`: adds records from any folder or machine; it can also rebuild the index."""

from pathlib import Path

import click

from andon.cli.commands.runs.opened import finding
from andon.cli.options import chosen, shared
from andon.cli.terminal import Terminal, notice

SHOWN_REFUSED = 10


@click.command()
@click.argument("paths", metavar="DIR…", nargs=-1, required=True)
@shared
def add(paths: tuple[str, ...]) -> int:
    """Add records to the list: files, or folders and all below them.

    Records of other machines can be added too. A record that was moved keeps its tags and its note;
    a copy of a known record is refused. The exit code is 1 if nothing was added.
    """
    with finding() as finder:
        done = finder.add(map(Path, paths))
    choices = chosen()
    for path, why in done.refused[:SHOWN_REFUSED]:
        notice(why if str(path) in why else f"{path}: {why}", choices)
    if len(done.refused) > SHOWN_REFUSED:
        notice(f"and {len(done.refused) - SHOWN_REFUSED} more files", choices)
    parts = [
        (len(done.added), "added"),
        (len(done.moved), "found at its new path"),
        (done.known, "known already"),
        (len(done.refused), "not taken"),
    ]
    counts = ", ".join(f"{count} {what}" for count, what in parts if count)
    Terminal.of(choices).remark(counts or "no records there")
    return 0 if done.added or done.moved or done.known else 1
