"""`andon seed`: generates a simulated history, for demonstrations and tests."""

import time
from contextlib import closing

import click
from msgspec.structs import replace

from andon.app.history import find_store, open_past, open_store, retention_of, store_url
from andon.cli.options import chosen, shared, whole
from andon.cli.sources import settings_of
from andon.cli.terminal import Terminal
from andon.drivers.sim.rules import behaviour
from andon.errors import Conflict, Invalid, Unavailable
from andon.history.rules import seeding
from andon.settings.resolution import Settings
from andon.units import counted, human_bytes


@click.command()
@click.option(
    "--days", type=whole, default=30, show_default=True, metavar="N", help="How many days."
)
@click.option(
    "--devices", type=whole, default=8, show_default=True, metavar="N", help="How many devices."
)
@click.option("--store", metavar="URL", help="A store or a file [default: from the settings].")
@click.option("--force", is_flag=True, help="Add to an existing history.")
@shared
def seed(days: int, devices: int, store: str | None, force: bool) -> int:
    """Fill a history with simulated devices, as if andon had run for that many days.

    The last hour and the last day are simulated and repeated. The devices are marked as
    simulated; `andon history` shows them.
    """
    settings = settings_of(chosen())
    settings = replace(settings, history_store=store or settings.history_store)
    if store_url(settings).scheme == "memory":
        raise Invalid("a history in memory would be lost at once", hint="use --store FILE")
    existing = find_store(settings)
    if existing is not None:
        existing.close()
        if not force:
            reason = f"{existing.place} already exists"
            raise Conflict(reason, hint="use --store FILE for another, or --force")
    began = time.monotonic()
    _fill(settings, days, devices)
    with closing(open_past(settings)) as filled:
        place, size = filled.place, filled.size_bytes()
    text = f"{counted(devices, 'simulated device')}, {counted(days, 'day')}, {human_bytes(size)}"
    spent = f"in {time.monotonic() - began:.1f} s"
    Terminal.of(chosen()).remark(f"{place}: {text}, {spent}")
    return 0


def _fill(settings: Settings, days: int, count: int) -> None:
    if count > 512:
        raise Unavailable("at most 512 devices can be simulated")
    specimens, now = seeding.specimens(count, settings.simulate_seed), time.time()
    facts = [behaviour.describe(specimen) for specimen in specimens]
    with closing(open_store(settings)) as store:
        store.load(facts, seeding.blocks(specimens, now, days, retention_of(settings)))
        store.write(
            seeding.last_ticks(specimens, now),
            seeding.uses(specimens, now, min(days, 90)),
        )
