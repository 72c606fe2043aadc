"""Hides what callers may not see: the command lines of others."""

import threading
from collections.abc import Callable, Hashable, Iterable, Sequence

from msgspec.structs import replace

from andon.access.roles import BLIND, Sight
from andon.errors import Gone
from andon.history.rules.intervals import UsageInterval
from andon.model.device import COMMANDS_MISSING, DeviceStatus, Process, Snapshot

HIDDEN = "shown to callers with the token"
HIDDEN_OTHERS = "those of others are shown to root and to the user who runs the server"


def seen_by(sight: Sight, snapshot: Snapshot) -> Snapshot:
    """Hides the command lines that this caller may not see; program names stay."""
    if sight.everything:
        return snapshot
    return replace(snapshot, devices=tuple(_seen(sight, one) for one in snapshot.devices))


def all_seen_by(sight: Sight, snapshots: Sequence[Snapshot]) -> list[Snapshot]:
    return [seen_by(sight, snapshot) for snapshot in snapshots]


def narrowed(sight: Sight, snapshot: Snapshot) -> Sight:
    """Returns the sight reduced to this snapshot: a user without a process in it sees what
    anyone sees.

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
    """Returns the error for an object that this caller cannot see. `shared`: everyone sees their
    own. It does not reveal whether another user has it."""
    if not shared or sight.everything:
        return Gone(f"there is no {what} here", hint=f"to list them: {listing}")
    if sight.user is None:
        reason = f"there is no {what} that may be shown before you sign in"
        return Gone(reason, hint="sign in: andon open")
    hint = f"those of others are shown only to root; yours: {listing}"
    return Gone(f"{sight.user} has no {what} here", hint=hint)


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


# Expensive answers, computed once per snapshot for all callers.


class SingleFlight:
    """The last answer for each sight; concurrent callers wait for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[Sight, tuple[Hashable, bytes]] = {}

    def answer(self, at: Hashable, sight: Sight, make: Callable[[], bytes]) -> bytes:
        with self._lock:
            known = self._kept.get(sight)
            if known is None or known[0] != at:
                self._kept = {s: one for s, one in self._kept.items() if one[0] == at}
                known = self._kept[sight] = (at, make())
            return known[1]
