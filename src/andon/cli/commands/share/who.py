"""`andon who`: who uses and holds the devices now, and who did over the last day."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct, field

from andon.cli.commands.reporting import (
    as_document,
    deliver,
    format_option,
    prices_of,
)
from andon.cli.commands.share.leases import on_devices
from andon.cli.moments import since_option
from andon.cli.options import chosen, elsewhere, fresh_option, shared, with_devices
from andon.cli.show.entries import unreal
from andon.cli.show.render import no_device, paragraph
from andon.cli.show.table import TableColumn, TableRow, choose, draw
from andon.cli.show.text import UNKNOWN, Text, known, percent, styled, with_mark
from andon.cli.show.waiting import queue_line
from andon.cli.sources import exit_code, node_of, settings_of
from andon.cli.terminal import Terminal, notice
from andon.explain.conditions.node.drivers import has_none
from andon.explain.evidence.blame import last_used
from andon.history.rules.usage import UNKNOWN_USER, UserUsage, renamed
from andon.leases.policy_file import group_of, policy_state
from andon.model.device import Snapshot
from andon.model.lease_list import LeaseList
from andon.model.naming import device_labels, narrowed, unread_text
from andon.node.past_use import PastUse, RecordedRuns, past_use, read_runs
from andon.units import gpu_hours, human_bytes, human_joules

if TYPE_CHECKING:
    from andon.node.port import Node

USE_RANK = 2  # of the columns that come from the history
WITHOUT_USER = "– user: a process whose owner is not visible from here"
WITHOUT_GROUP = "– group: users who are in no group that is known here"
NOT_KNOWN = "Who uses the devices now is not known."


class UserRow(Struct):
    """One user's row; the users of simulated devices have rows of their own."""

    user: str
    simulated: bool = False
    devices: dict[str, int] = field(default_factory=dict)  # label -> index
    memory_bytes: int | None = 0  # None where that of a process is not known
    leases: list[str] = field(default_factory=list)
    held: list[str] = field(default_factory=list)  # the same for people: `k7qm2 (GPU 3)`
    days: dict[str, UserUsage] = field(default_factory=dict)

    @property
    def usage(self) -> UserUsage | None:
        """Returns the usage of all days; None if nothing is recorded."""
        whole = UserUsage(self.user)
        for usage in self.days.values():
            whole.add(usage)
        return whole if self.days else None


class People:
    """Every user who was seen, or every group of them."""

    def __init__(self, name_of: Callable[[str], str] = str) -> None:
        self._rows: dict[tuple[str, bool], UserRow] = {}
        self._name_of = name_of

    def row(self, user: str | None, simulated: bool) -> UserRow:
        name = self._name_of(user or UNKNOWN_USER)
        return self._rows.setdefault((name, simulated), UserRow(name, simulated))

    def add_past(self, past: PastUse) -> None:
        for simulated, days in ((False, past.real), (True, past.simulated)):
            for (day, user), usage in days.items():
                self.row(user, simulated).days[day] = usage

    def rows(self) -> list[UserRow]:
        return sorted(self._rows.values(), key=_order)


class WhoReport(Struct, frozen=True):
    """The use by all users, for a report."""

    snapshot: Snapshot
    since: float
    past: PastUse
    rows: list[UserRow]
    notes: tuple[str, ...]
    unknown: str | None
    by: str = "user"


@click.command()
@with_devices()
@since_option
@click.option(
    "--by",
    type=click.Choice(["user", "group"]),
    default="user",
    show_default=True,
    help="A row for each, of root's policy or the system.",
)
@click.option(
    "--digest", is_flag=True, help="The weekly digest of [reports], as it would be sent now."
)
@format_option(
    "Report per user and day: text, md, html, json or csv.",
    as_json="Print andon.who/1: bytes, joules, seconds.",
    as_csv="Print one row per user and day.",
)
@fresh_option
@elsewhere
@shared
def who(
    devices: list[str], since: float, by: str, digest: bool, form: str | None, out: Path | None
) -> int:
    """Print who uses and holds the devices, now and since --since.

    Hours, energy and idle share come from the history that andon serve keeps; a dash means
    that it is not known, and a line below says why. The energy of a shared device is divided
    among its users. --format reports the same per user and day, with the time that devices
    were held but idle, runs and waits. The exit code is 3 if no device can be read.
    """
    if digest and (form or devices):
        raise click.UsageError("--digest is of the whole week and machine, as text")
    if out is not None and form is None:
        raise click.UsageError("--out needs --format")
    choices, terminal = chosen(), Terminal.of(chosen())
    name_of = _group_of() if by == "group" else str
    people = People(name_of)
    node = node_of(choices)
    if digest:
        return _digest(node, terminal)
    snapshot, leases, _ = node.leases.listing()
    shown = narrowed(snapshot, devices)
    _add_present(people, shown, on_devices(leases, devices))
    uuids = {s.device.uuid for s in shown.devices} if devices else None
    runs = read_runs(node, since) if form is not None else RecordedRuns()
    past = past_use(node.past, since, uuids, runs.rows)
    if by == "group":
        past.real, past.simulated = (renamed(days, name_of) for days in (past.real, past.simulated))
    people.add_past(past)
    rows, code = people.rows(), exit_code(snapshot)
    unknown = _unknown(snapshot) if code else None
    mixed = not snapshot.simulated
    dashed = form is not None or _shows_use(rows, terminal.width, mixed)
    remarks = _remarks(shown, rows, past.recorded, dashed, by)
    if form is not None:
        notes = (*([unknown] if unknown else ()), *remarks, *runs.notes)
        report = WhoReport(shown, since, past, rows, notes, unknown, by)
        deliver(_report(report, form, terminal, plain=out is not None), form, out, terminal)
        return code
    lines = _lines(rows, unknown, terminal.width, mixed, bool(code and snapshot.devices), by)
    terminal.print(*with_mark(lines, unreal(snapshot), terminal.width))
    for place in leases.waiting:
        terminal.print(styled(queue_line(place, leases.at), "dim"))
    for remark in remarks:
        terminal.print(*paragraph(remark, terminal.width, "dim"))
    return code


def _digest(node: "Node", terminal: Terminal) -> int:
    """Prints the digest of the last seven days; nothing is sent."""
    from andon.alerts.rules.digest import digest_notice
    from andon.alerts.rules.messages import message
    from andon.app.messages.digest import read_digest

    snapshot, now = node.live.latest(commands=False), time.time()
    found = read_digest({snapshot.node: node}, now, settings_of(chosen()))
    sent = message([digest_notice(found)], now, found.offset)
    terminal.print(*map(styled, (sent.title, "", *sent.body.splitlines())))
    return exit_code(snapshot)


def _lines(
    rows: list[UserRow],
    unknown: str | None,
    width: int,
    mixed: bool = False,
    blind: bool = False,
    by: str = "user",
) -> list[Text]:
    """Returns the table, and a note if a device's processes cannot be read."""
    people = [TableRow(person) for person in rows]
    lines = draw(_columns(mixed, blind, by), people, width) if rows else []
    if unknown is not None:
        return [*lines, *paragraph(unknown, width, indent=0)]
    return lines or [styled("no one uses or holds a device", "dim")]


def _group_of() -> Callable[[str], str]:
    """Returns what names a user's group; those of whom none is known share a row."""
    policy, error = policy_state()
    if error is not None:
        notice(f"groups are those of the system: {error.reason}", chosen())
    return lambda user: group_of(policy, user) or UNKNOWN_USER


def _unknown(snapshot: Snapshot) -> str:
    """Returns why no user can be named."""
    why = snapshot.silence or no_device(snapshot)
    return why if has_none(snapshot) else f"{NOT_KNOWN} {why}"


def _add_present(people: People, snapshot: Snapshot, leases: LeaseList) -> None:
    labels = device_labels(snapshot.devices)
    for status in snapshot.devices:
        for process in status.processes:
            person = people.row(process.user, status.device.vendor == "sim")
            person.devices[labels[status.device.uuid]] = status.device.index
            if person.memory_bytes is not None:
                more = process.memory_bytes
                person.memory_bytes = None if more is None else person.memory_bytes + more
    for lease in leases.leases:
        person, name = people.row(lease.user, lease.simulated), lease.id or "unreadable"
        person.leases.append(name)
        on = ",".join(labels.get(share.uuid) or str(share.index) for share in lease.devices)
        person.held.append(f"{name} (GPU {on})" if on else name)


def _report(report: WhoReport, form: str, terminal: Terminal, plain: bool) -> str:
    from andon.cli.show.reports import group_usage

    past, snapshot = report.past, report.snapshot
    if form == "json":
        blind = bool(snapshot.devices) and exit_code(snapshot) != 0
        users = [_as_json(person, past.recorded, blind) for person in report.rows]
        value = {
            "schema": "andon.who/1",
            "since": report.since,
            "by": report.by,
            "users": users,
            "note": report.unknown,
        }
        return terminal.json_text(value, plain)
    if form == "csv":
        days = group_usage.usage_days(past.real, past.simulated, past.recorded)
        return group_usage.USAGE_DAYS.text(days)
    group = group_usage.GroupUsage(
        node=snapshot.node,
        since=report.since,
        until=time.time(),
        days=past.real or past.simulated,
        simulated=not past.real and bool(past.simulated),
        recorded=past.recorded,
        notes=report.notes,
        prices=prices_of(settings_of(chosen())),
        by=report.by,
    )
    return as_document(group_usage.group_document(group), form, terminal, plain)


def _shows_use(rows: list[UserRow], width: int, mixed: bool) -> bool:
    """Whether the table has space for any of the columns that the history fills."""
    shown = choose(_columns(mixed), [TableRow(person) for person in rows], width)
    return any(column.rank == USE_RANK for column in shown)


def _remarks(
    snapshot: Snapshot, rows: list[UserRow], recorded: bool, dashed: bool = True, by: str = "user"
) -> list[str]:
    """Why there are dashes, and what is not known; `dashed`: whether use is shown at all."""
    out = []
    if not dashed:
        pass
    elif rows and not recorded:
        out.append("– GPU hours, energy, idle: nothing is recorded here (andon serve records it)")
    elif any(person.usage is None for person in rows):
        out.append("– GPU hours, energy, idle: nothing recorded of this user in this time")
    if any(person.memory_bytes is None for person in rows):
        out.append("– memory: that of a process of this user cannot be read")
    if any(person.user == UNKNOWN_USER for person in rows):
        out.append(WITHOUT_GROUP if by == "group" else WITHOUT_USER)
    if unread := unread_text(snapshot.devices, "who uses it", "who uses them"):
        silent = snapshot.silence is not None  # which is said above
        out += [*([] if silent else [f"{unread} is not known"]), *last_used(snapshot.devices)]
    return out


def _order(person: UserRow) -> tuple[float, float, str]:
    hours = person.usage.device_seconds if person.usage else 0.0
    return -len(person.devices), -hours, person.user


def _user(person: UserRow, mixed: bool) -> Text:
    """Returns the user's name; `mixed`: users of simulated devices are marked among real ones."""
    mark = styled(" SIMULATED", "reverse") if person.simulated and mixed else Text()
    return styled(person.user) + mark


def _of_use(title: str, cell: Callable[[UserUsage], Text]) -> TableColumn[UserRow]:
    """Returns a column that the history fills."""

    def shown(person: UserRow) -> Text:
        return known(None) if person.usage is None else cell(person.usage)

    return TableColumn(title, shown, rank=USE_RANK, right=True)


def _memory(person: UserRow, blind: bool) -> str:
    size = None if blind else person.memory_bytes
    return UNKNOWN if size is None else human_bytes(size)


def _columns(
    mixed: bool, blind: bool = False, by: str = "user"
) -> tuple[TableColumn[UserRow], ...]:
    """`blind`: no device answers, so that it is not known who uses them."""
    none = UNKNOWN if blind else "none"
    return (
        TableColumn(by.upper(), lambda p: _user(p, mixed), elastic=8),
        TableColumn("GPU", lambda p: styled(",".join(p.devices) or none)),
        TableColumn("MEMORY", lambda p: styled(_memory(p, blind)), right=True),
        TableColumn("LEASES", lambda p: styled(" ".join(p.held) or "none"), rank=1, elastic=6),
        _of_use("GPU HOURS", lambda usage: known(usage.device_seconds, gpu_hours)),
        _of_use("ENERGY", lambda usage: known(usage.energy_joules, human_joules)),
        _of_use("IDLE", lambda usage: percent(usage.idle_share and 100 * usage.idle_share)),
    )


def _as_json(person: UserRow, recorded: bool, blind: bool) -> dict[str, Any]:
    from andon.cli.show.reports.group_usage import usage_json

    return {
        "user": person.user,
        "simulated": person.simulated,
        "devices": sorted(set(person.devices.values())),
        "memory_bytes": None if blind else person.memory_bytes,
        "leases": person.leases,
        **usage_json(person.usage, recorded),
        "days": [
            {"day": day, **usage_json(person.days[day], recorded)} for day in sorted(person.days)
        ],
    }
