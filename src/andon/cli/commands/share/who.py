"""`andon who`: who uses and holds the devices now, and who did over the last day."""

import time
from dataclasses import dataclass, field
from typing import Any

import click

from andon.cli.availability_source import server_leases
from andon.cli.commands.share.leases import on_devices, read_leases
from andon.cli.commands.watch.history import moment
from andon.cli.commands.watch.status import as_json_text, exit_code
from andon.cli.options import chosen, elsewhere, shared, with_devices
from andon.cli.past_source import find_past
from andon.cli.show.entries import unreal
from andon.cli.show.render import no_device, paragraph
from andon.cli.show.table import TableColumn, TableRow, draw
from andon.cli.show.text import UNKNOWN, Text, say
from andon.cli.snapshot_source import narrowed, take_snapshot
from andon.cli.terminal import Choices, Terminal
from andon.core.conditions.node.drivers import has_none
from andon.core.history.usage import UNKNOWN_USER, UserUsage, by_user
from andon.model.device import Snapshot
from andon.model.lease_list import LeaseList
from andon.model.naming import device_labels, unread_words
from andon.units import human_bytes

PART_SECONDS = 60.0
MOST_PARTS = 1440
NOT_KNOWN = "Who uses the devices now is not known."


@dataclass(slots=True)
class UserRow:
    """One user's row; the users of simulated devices have rows of their own."""

    user: str
    simulated: bool = False
    devices: dict[str, int] = field(default_factory=dict)  # label -> index
    memory_bytes: int = 0
    leases: list[str] = field(default_factory=list)
    usage: UserUsage | None = None


class People:
    """Every user who was seen."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, bool], UserRow] = {}

    def row(self, user: str | None, simulated: bool) -> UserRow:
        name = user or UNKNOWN_USER
        return self._rows.setdefault((name, simulated), UserRow(name, simulated))

    def rows(self) -> list[UserRow]:
        return sorted(self._rows.values(), key=_order)


@click.command()
@with_devices()
@click.option(
    "--since",
    default="24h",
    show_default=True,
    type=moment,
    metavar="WHEN",
    help="Start: 24h ago, or a time such as 2026-11-15T03:00.",
)
@click.option("--json", "as_json", is_flag=True, help="Print andon.who/1: bytes, joules, seconds.")
@elsewhere
@shared
def who(devices: list[str], since: float, as_json: bool) -> int:
    """Print who uses and holds the devices, now and since --since.

    Hours, energy and idle share come from the history that andon serve keeps; a dash means
    that it is not known, and a line below says why. The energy of a shared device is divided
    among its users. The exit code is 3 if no device can be read.
    """
    choices, terminal, people = chosen(), Terminal.of(chosen()), People()
    snapshot, leases = _now(choices)
    shown = narrowed(snapshot, devices)
    _add_present(people, shown, on_devices(leases, devices))
    recorded = _add_past(people, choices, since, {s.device.uuid for s in shown.devices}, devices)
    rows, code = people.rows(), exit_code(snapshot)
    unknown = _unknown(snapshot) if code else None
    if as_json:
        users = [_as_json(person) for person in rows]
        value = {"schema": "andon.who/1", "since": since, "users": users, "note": unknown}
        terminal.show(as_json_text(value, terminal.live))
        return code
    if unreal(snapshot):
        terminal.say(say(f" {unreal(snapshot)} ", "bold reverse"))
    for text in _lines(rows, unknown, terminal.width, mixed=not snapshot.simulated):
        terminal.say(text)
    for remark in _remarks(shown, rows, recorded):
        for line in paragraph(remark, terminal.width, "dim"):
            terminal.say(line)
    return code


def _lines(rows: list[UserRow], unknown: str | None, width: int, mixed: bool = False) -> list[Text]:
    """The table, and that more may be using a device where none can be read."""
    people = [TableRow(person) for person in rows]
    lines = draw(_columns(mixed), people, width) if rows else []
    if unknown is not None:
        return [*lines, *paragraph(unknown, width, indent=0)]
    return lines or [say("no one uses or holds a device", "dim")]


def _unknown(snapshot: Snapshot) -> str:
    """Why nobody can be named."""
    why = no_device(snapshot)
    return why if has_none(snapshot) else f"{NOT_KNOWN} {why}"


def _now(choices: Choices) -> tuple[Snapshot, LeaseList]:
    if choices.url is not None:
        return take_snapshot(choices), server_leases(choices)
    from andon.engine.sharing.lease_listing import listing
    from andon.engine.sharing.releaser import asker

    seen = read_leases(choices)
    return seen.snapshot, listing(seen, asker())


def _add_present(people: People, snapshot: Snapshot, leases: LeaseList) -> None:
    labels = device_labels(snapshot.devices)
    for status in snapshot.devices:
        for process in status.processes:
            person = people.row(process.user, status.device.vendor == "sim")
            person.devices[labels[status.device.uuid]] = status.device.index
            person.memory_bytes += process.memory_bytes or 0
    for lease in leases.leases:
        people.row(lease.user, lease.simulated).leases.append(lease.id or "unreadable")


def _add_past(
    people: People, choices: Choices, since: float, uuids: set[str], devices: list[str]
) -> bool:
    """Add usage from the history; whether there is any history."""
    past = find_past(choices)
    if past is None:
        return False
    now = time.time()
    points = max(1, min(MOST_PARTS, int((now - since) / PART_SECONDS)))
    try:
        recorded = [d for d in past.devices() if not devices or d.uuid in uuids]
        for simulated in (False, True):
            kind = [d.uuid for d in recorded if (d.vendor == "sim") == simulated]
            busy, power = (
                {uuid: past.history(uuid, metric, since, now, points) for uuid in kind}
                for metric in ("utilization_percent", "power_watts")
            )
            uses = [use for use in past.usage(None, since, now) if use.device in kind]
            for usage in by_user(uses, busy, power):
                people.row(usage.user, simulated).usage = usage
    finally:
        past.close()
    return True


def _remarks(snapshot: Snapshot, rows: list[UserRow], recorded: bool) -> list[str]:
    """Why there are dashes, and what is not known."""
    out = []
    if rows and not recorded:
        out.append("– GPU hours, energy, idle: nothing is recorded here (andon serve records it)")
    elif any(person.usage is None for person in rows):
        out.append("– GPU hours, energy, idle: nothing recorded of this user in this time")
    if any(person.user == UNKNOWN_USER for person in rows):
        out.append("– user: a process whose owner is not visible from here")
    unread = unread_words(snapshot.devices, "who uses it", "who uses them")
    return [*out, f"{unread} is not known"] if unread else out


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


def _user(person: UserRow, mixed: bool) -> Text:
    """`mixed`: among real users, those of simulated devices are marked."""
    mark = say(" SIMULATED", "reverse") if person.simulated and mixed else Text()
    return say(person.user) + mark


def _columns(mixed: bool) -> tuple[TableColumn[UserRow], ...]:
    return (
        TableColumn("USER", lambda p: _user(p, mixed), elastic=8),
        TableColumn("GPU", lambda p: say(",".join(p.devices) or "none")),
        TableColumn("MEMORY", lambda p: say(human_bytes(p.memory_bytes)), right=True),
        TableColumn("LEASES", lambda p: say(" ".join(p.leases) or "none"), rank=1, elastic=6),
        TableColumn("GPU HOURS", _hours, rank=2, right=True),
        TableColumn("ENERGY", _energy, rank=2, right=True),
        TableColumn("IDLE", _idle, rank=2, right=True),
    )


def _as_json(person: UserRow) -> dict[str, Any]:
    usage = person.usage
    return {
        "user": person.user,
        "simulated": person.simulated,
        "devices": sorted(set(person.devices.values())),
        "memory_bytes": person.memory_bytes,
        "leases": person.leases,
        "device_seconds": None if usage is None else round(usage.device_seconds, 1),
        "energy_joules": None if usage is None else round(usage.energy_joules, 1),
        "idle_share": None if usage is None else usage.idle_share,
    }
