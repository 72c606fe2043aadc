"""Hides what callers may not see: command lines and runs of others, and fences of their leases."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

from msgspec.structs import replace

from andon.access.roles import BLIND, Action, Identity, Role, Sight, refusal_for
from andon.errors import Gone
from andon.history.rules.intervals import UsageInterval
from andon.model.alert import Alert
from andon.model.device import COMMANDS_MISSING, DeviceStatus, Process, Snapshot
from andon.model.lease_list import LeaseList, LeaseRow
from andon.model.run.record import RunKind
from andon.node.run_schemas import RunDetails, RunEntry, RunMark, RunUpdate
from andon.runs.rules.matching import HIDDEN_NAME

E = TypeVar("E", bound=RunEntry)

HIDDEN = "shown to callers with the token"
HIDDEN_OTHERS = "those of others are shown to root and to the user who runs the server"


def seen_by(sight: Sight, snapshot: Snapshot) -> Snapshot:
    """Hides the command lines that this caller may not see; program names stay."""
    if sight.everything:
        return snapshot
    return replace(snapshot, devices=tuple(_seen(sight, one) for one in snapshot.devices))


def narrowed(sight: Sight, snapshot: Snapshot) -> Sight:
    """Returns BLIND for a user without a process in this snapshot, who sees what anyone sees;
    otherwise the same sight.

    So a signed-in user rarely costs an encoding of their own.
    """
    if sight.everything or sight.user is None:
        return sight
    own = any(hides(BLIND, one.processes) and _has(sight, one) for one in snapshot.devices)
    return sight if own else BLIND


def hides(sight: Sight, processes: Sequence[Process]) -> bool:
    """Whether any of the command lines is hidden."""
    return not sight.everything and any(
        one.command is not None and not sight.shows(one.user) for one in processes
    )


def without_commands(sight: Sight, processes: Sequence[Process]) -> tuple[Process, ...]:
    return tuple(one if sight.shows(one.user) else replace(one, command=None) for one in processes)


def uses_seen_by(sight: Sight, uses: Iterable[UsageInterval]) -> list[UsageInterval]:
    """Returns the uses without other users' programs: their names come from command lines."""
    return [use if sight.shows(use.user) else replace(use, name=None) for use in uses]


def why_hidden(sight: Sight) -> str:
    return HIDDEN if sight.user is None else HIDDEN_OTHERS


def not_seen(what: str, sight: Sight, shared: bool, listing: str) -> Gone:
    """Returns the error for an object that this caller cannot see, without revealing whether it
    exists. `shared`: each user sees their own."""
    if not shared or sight.everything:
        return Gone(f"there is no {what}", hint=f"to list them: {listing}")
    if sight.user is None:
        reason = f"there is no {what} that may be shown before you sign in"
        return Gone(reason, hint="sign in: andon open")
    hint = f"those of others are shown only to root; yours: {listing}"
    return Gone(f"{sight.user} has no {what} here", hint=hint)


def alert_seen_by(sight: Sight, alert: Alert) -> Alert:
    """Hides the command lines that this caller may not see; program names stay."""
    if all(party.command is None or sight.shows(party.user) for party in alert.affected):
        return alert
    shown = (p if sight.shows(p.user) else replace(p, command=None) for p in alert.affected)
    return replace(alert, affected=tuple(shown))


def entry_seen_by(sight: Sight, entry: E) -> E:
    """Hides from a run's entry what `ps` would not show of another user's process."""
    if sight.shows(entry.user):
        return entry
    of_job = entry.kind is RunKind.JOB
    return replace(
        entry, name=HIDDEN_NAME if of_job else entry.name, group=None if of_job else entry.group,
        command=None, note=None, tags=[], message=None, params=None, last_values={},
        extremes={}, progress=None, hidden=why_hidden(sight),
    )  # fmt: skip


def details_seen_by(sight: Sight, found: RunDetails) -> RunDetails:
    if sight.shows(found.user):
        return found
    return replace(
        entry_seen_by(sight, found), working_directory=None, path=None, downloadable=False,
        git=None, git_reason=None, versions_reason=None, curves={},
    )  # fmt: skip


def update_seen_by(sight: Sight, user: str | None, update: RunUpdate) -> RunUpdate:
    """Hides the values that come from the run's program, if it is another user's."""
    if sight.shows(user):
        return update
    marks = marks_seen_by(sight, user, update.marks)
    return replace(update, marks=marks, progress=None, curves={})


def marks_seen_by(sight: Sight, user: str | None, marks: list[RunMark]) -> list[RunMark]:
    """Hides the titles and details that come from another user's program."""
    if sight.shows(user):
        return marks
    hidden: dict[str, dict[str, str | None]]
    hidden = {"event": {"title": "event", "detail": None}, "item": {"detail": None}}
    return [replace(one, **hidden.get(one.kind, {})) for one in marks]


def leases_seen_by(who: Identity, found: LeaseList, server_user: str | None = None) -> LeaseList:
    """The list without other users' commands, and without the fences that prove ownership."""
    return replace(
        found, leases=tuple(_lease_seen_by(who, row, server_user) for row in found.leases)
    )


def _has(sight: Sight, status: DeviceStatus) -> bool:
    return any(one.command is not None and sight.shows(one.user) for one in status.processes)


def _seen(sight: Sight, status: DeviceStatus) -> DeviceStatus:
    if not hides(sight, status.processes):
        return status
    return replace(
        status,
        processes=without_commands(sight, status.processes),
        missing={**status.missing, COMMANDS_MISSING: why_hidden(sight)},
    )


def _lease_seen_by(who: Identity, row: LeaseRow, server_user: str | None) -> LeaseRow:
    own = who.uid is not None and who.uid == row.uid
    if refusal_for(who, Action.SEE_COMMANDS, own) is not None:
        row = replace(row, command=None, fence=None)
    if who.role is not Role.USER:
        return row  # whether the server itself can end it
    refused = refusal_for(who, Action.RELEASE, own, row.user)
    if refused is not None:
        reason = f"{refused.reason}: {refused.hint}"
        return replace(row, releasable=False, not_releasable_reason=reason)
    if row.releasable or row.id is None:
        return row
    reason = f"{server_user or 'another user'} runs this server and cannot end it: andon release "
    return replace(row, not_releasable_reason=reason + row.id)
