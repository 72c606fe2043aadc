"""`andon gc`: runs the maintenance of the history now."""

import time
from contextlib import closing

import click

from andon.cli import snapshot_source
from andon.cli.options import chosen, shared
from andon.cli.show.text import say
from andon.cli.terminal import Terminal
from andon.core.history.tiers import Maintenance
from andon.units import human_bytes


@click.command()
@shared
def gc() -> int:
    """Pack and roll up the history, delete what is too old, and free the disk space.

    `andon serve` does the same automatically, a little at a time.
    """
    from andon import app

    settings = snapshot_source.settings_of(chosen())
    with closing(app.open_past(settings)) as store:
        place, before = store.place, store.size_bytes()
    with closing(app.open_store(settings)) as store:
        done = app.maintainer_of(settings, store).finish(time.time())
    # Read again: closing a store may remove its journals, unless a server also has it open.
    with closing(app.open_past(settings)) as store:
        after = store.size_bytes()
    if not chosen().quiet:
        Terminal.of(chosen()).say(say(f"{place}: {describe(done, before, after)}"))
    return 0


def describe(done: Maintenance, before_bytes: int, after_bytes: int) -> str:
    """What was done, in one line."""
    parts = [
        (done.packed_ticks, "{} samples packed"),
        (done.rolled_blocks, "{} blocks rolled up"),
        (done.deleted_blocks, "{} blocks deleted"),
        (done.deleted_uses, "{} intervals deleted"),
        (done.damaged_blocks, "{} damaged blocks skipped"),
    ]
    words = [text.format(count) for count, text in parts if count]
    sizes = f"{human_bytes(before_bytes)} before, {human_bytes(after_bytes)} now"
    return ", ".join([*(words or ["nothing to do"]), sizes])
