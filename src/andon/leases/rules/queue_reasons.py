"""Why each request in the queue waits, as text that everyone may read: no names of programs."""

from collections.abc import Sequence

from andon.model.lease_list import LeaseList, WaitingRow
from andon.model.verdict import DeviceVerdict, VerdictKind
from andon.units import counted

MOST_USERS = 3


def queue_reasons(found: LeaseList) -> list[str]:
    """Returns a reason for each place: the first waits for GPUs, the others for those before
    them too."""
    return [_reason(found.waiting[:n], row, found.devices) for n, row in enumerate(found.waiting)]


def _reason(ahead: Sequence[WaitingRow], row: WaitingRow, devices: Sequence[DeviceVerdict]) -> str:
    behind = f"behind {_users([one.user for one in ahead])}" if ahead else ""
    free = sum(one.kind is VerdictKind.FREE for one in devices)
    if behind and (free >= row.gpus or not devices):
        return behind
    text = f"{counted(row.gpus, 'GPU')} requested"
    if devices:
        text += f", {free} free"
    holders = [one.by for one in devices if one.kind is not VerdictKind.FREE and one.by]
    if holders:
        has = "has" if len(set(holders)) == 1 else "have"
        text += f": {_users(holders)} {has} {'the others' if free else 'them'}"
    return f"{text}; {behind}" if behind else text


def _users(names: Sequence[str]) -> str:
    """Returns `alice, bob and 2 more`, each name once."""
    found = list(dict.fromkeys(names))
    shown, more = found[:MOST_USERS], len(found) - MOST_USERS
    if more > 0:
        return f"{', '.join(shown)} and {more} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else shown[0]
