"""`andon gc`: runs the maintenance of the history now."""

import time

import click

from andon.cli import snapshot_source
from andon.cli.options import chosen, shared
from andon.cli.show.text import say
from andon.cli.terminal import Terminal
from andon.core.history.tiers import Maintenance
from andon.errors import Unavailable
from andon.units import human_bytes


@click.command()
@shared
def gc() -> int:
    """Pack and roll up the history, delete what is too old, and free the disk space.

    `andon serve` does the same automatically, a little at a time.
    """
    from andon import app

    settings = snapshot_source.settings_of(chosen())
    path = app.history_path(settings)
    if not path.exists():
        raise Unavailable(f"no history yet: there is no {path}", hint="andon serve records history")
    store = app.open_store(settings)
    try:
        before, done, now = store.size_bytes(), Maintenance(), time.time()
        while not (step := store.maintain(now)).idle:
            done = done.plus(step)
    finally:
        store.close()
    after = path.stat().st_size
    if not chosen().quiet:
        Terminal.of(chosen()).say(say(f"{path}: {describe(done, before, after)}"))
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
