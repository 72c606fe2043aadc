"""`andon who`: who uses and holds the devices now, and who did over the last day."""

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from andon.cli.commands.share.leases import read_leases
from andon.cli.commands.watch.history import moment
from andon.cli.commands.watch.status import as_json_text
from andon.cli.options import chosen, shared
from andon.cli.show.table import TableColumn, TableRow, draw
from andon.cli.show.text import UNKNOWN, Text, say
from andon.cli.sources import settings_of
from andon.cli.terminal import Terminal
from andon.core.history.usage import UNKNOWN_USER, UserUsage, by_user
from andon.core.sampling.roster import unlisted
from andon.model.naming import device_labels
from andon.units import human_bytes

if TYPE_CHECKING:
    from andon.core.settings.resolution import Settings
    from andon.engine.sharing.lease_listing import LeaseListing

PART_SECONDS = 60.0
MOST_PARTS = 1440


@dataclass(slots=True)
class UserRow:
    """One user's row."""

    user: str
    devices: dict[str, int] = field(default_factory=dict)  # label -> index
    memory_bytes: int = 0
    leases: list[str] = field(default_factory=list)
    usage: UserUsage | None = None


@click.command()
@click.option(
    "--since", default="24h", type=moment, metavar="WHEN", help="Start: 24h ago, or a time."
)
@click.option("--json", "as_json", is_flag=True, help="Print andon.who/1: bytes, joules, seconds.")
@shared
def who(since: float, as_json: bool) -> int:
    """Print who uses and holds the devices, now and since --since.

    Hours, energy and idle share come from the history that andon serve keeps; a dash means
    there is none. The energy of a shared device is divided among its users.
    """
    seen = read_leases(chosen())
    people = _people(seen)
    for usage in _history(settings_of(chosen()), since):
        people.setdefault(usage.user, UserRow(usage.user)).usage = usage
    rows = sorted(people.values(), key=_order)
    terminal = Terminal.of(chosen())
    if as_json:
        value = {"schema": "andon.who/1", "since": since, "users": [_as_json(p) for p in rows]}
        terminal.show(as_json_text(value, terminal.live))
    elif not rows:
        terminal.say(say("no one is seen to use or hold a device", "dim"))
    else:
        for text in draw(COLUMNS, [TableRow(person) for person in rows], terminal.width):
            terminal.say(text)
    if not as_json and (silent := unlisted(seen.snapshot.devices)) is not None:
        terminal.say(say(silent, "yellow"))
    return 0


def _people(seen: "LeaseListing") -> dict[str, UserRow]:
    people: dict[str, UserRow] = {}
    labels = device_labels(seen.snapshot.devices)
    for status in seen.snapshot.devices:
        for process in status.processes:
            user = process.user or UNKNOWN_USER
            person = people.setdefault(user, UserRow(user))
            person.devices[labels[status.device.uuid]] = status.device.index
            person.memory_bytes += process.memory_bytes or 0
    for claim in seen.claims:
        person = people.setdefault(claim.user, UserRow(claim.user))
        person.leases.append(claim.lease.id if claim.lease else "unreadable")
    return people


def _history(settings: "Settings", since: float) -> list[UserUsage]:
    """Usage from the history; empty if there is none."""
    from andon import app

    store = app.find_store(settings)
    if store is None:
        return []
    now = time.time()
    points = max(1, min(MOST_PARTS, int((now - since) / PART_SECONDS)))
    try:
        uuids = [device.uuid for device in store.devices()]
        busy, power = (
            {uuid: store.history(uuid, metric, since, now, points) for uuid in uuids}
            for metric in ("utilization_percent", "power_watts")
        )
        return by_user(store.usage(None, since, now), busy, power)
    finally:
        store.close()


def _order(person: UserRow) -> tuple[float, float, str]:
    hours = person.usage.device_seconds if person.usage else 0.0
    return -len(person.devices), -hours, person.user


def _hours(person: UserRow) -> Text:
    usage = person.usage
    return say(UNKNOWN, "dim") if usage is None else say(f"{usage.device_seconds / 3600:.1f}")


def _energy(person: UserRow) -> Text:
    usage = person.usage
    return say(UNKNOWN, "dim") if usage is None else say(f"{usage.energy_joules / 3.6e6:.2f} kWh")


def _idle(person: UserRow) -> Text:
    share = person.usage.idle_share if person.usage else None
    return say(UNKNOWN, "dim") if share is None else say(f"{100 * share:.0f} %")


COLUMNS: tuple[TableColumn[UserRow], ...] = (
    TableColumn("USER", lambda p: say(p.user), elastic=8),
    TableColumn("GPU", lambda p: say(",".join(p.devices) or UNKNOWN)),
    TableColumn("MEMORY", lambda p: say(human_bytes(p.memory_bytes)), right=True),
    TableColumn("LEASES", lambda p: say(" ".join(p.leases) or UNKNOWN), rank=1, elastic=6),
    TableColumn("GPU HOURS", _hours, rank=2, right=True),
    TableColumn("ENERGY", _energy, rank=2, right=True),
    TableColumn("IDLE", _idle, rank=2, right=True),
)


def _as_json(person: UserRow) -> dict[str, Any]:
    usage = person.usage
    return {
        "user": person.user,
        "devices": sorted(set(person.devices.values())),
        "memory_bytes": person.memory_bytes,
        "leases": person.leases,
        "device_seconds": None if usage is None else round(usage.device_seconds, 1),
        "energy_joules": None if usage is None else round(usage.energy_joules, 1),
        "idle_share": None if usage is None else usage.idle_share,
    }
