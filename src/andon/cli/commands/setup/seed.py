"""`andon seed`: generates a simulated history, for demonstrations and tests."""

import time
from pathlib import Path

import click

from andon.cli import snapshot_source
from andon.cli.options import chosen, shared, whole
from andon.cli.show.text import say
from andon.cli.terminal import Terminal
from andon.errors import Conflict, Unavailable
from andon.units import human_bytes


@click.command()
@click.option(
    "--days", type=whole, default=30, show_default=True, metavar="N", help="How many days."
)
@click.option(
    "--devices", type=whole, default=8, show_default=True, metavar="N", help="How many devices."
)
@click.option("--path", metavar="FILE", help="The file [default: from the settings].")
@click.option("--force", is_flag=True, help="Add to an existing history.")
@shared
def seed(days: int, devices: int, path: str | None, force: bool) -> int:
    """Fill a history with simulated devices, as if andon had run for that many days.

    The last hour and the last day are simulated and repeated. The devices are marked as
    simulated; `andon history` shows them.
    """
    from dataclasses import replace

    from andon import app

    settings = snapshot_source.settings_of(chosen())
    settings = replace(settings, history_path=path or settings.history_path)
    target = app.history_path(settings)
    if target.exists() and not force:
        raise Conflict(f"{target} already exists", hint="use --path FILE for another, or --force")
    began = time.monotonic()
    size = _fill(target, days, devices, settings.simulate_seed)
    if not chosen().quiet:
        text = f"{_count(devices, 'simulated device')}, {_count(days, 'day')}, {human_bytes(size)}"
        spent = f"in {time.monotonic() - began:.1f} s"
        Terminal.of(chosen()).say(say(f"{target}: {text}, {spent}"))
    return 0


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'s' * (number != 1)}"


def _fill(path: Path, days: int, count: int, seed: int) -> int:
    from andon.core.history.tiers import Retention
    from andon.core.simulation import behaviour, seeding
    from andon.stores.sqlite import SqliteStore

    if count > 512:
        raise Unavailable("at most 512 devices can be simulated")
    specimens = seeding.specimens(count, seed)
    facts = [behaviour.describe(specimen) for specimen in specimens]
    store, now, retention = SqliteStore(path), time.time(), Retention()
    try:
        store.load(facts, seeding.blocks(specimens, now, days, retention))
        store.write(
            seeding.last_ticks(specimens, now),
            seeding.uses(specimens, now, min(days, 90)),
        )
    finally:
        store.close()
    return path.stat().st_size
