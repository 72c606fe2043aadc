"""The text of alerts about leases: which process, which lease, whose, and what to do."""

from collections.abc import Mapping

from andon.core.conditions.finding import Judgement
from andon.core.conditions.state import HeldDevices, PreviousLease
from andon.model.alert import Party
from andon.model.device import Process
from andon.model.programs import program_of
from andon.units import human_bytes

MOST_NAMED = 3
LASTING = frozenset({"squatter", "idle_lease", "orphan"})
"""Rules whose sentences end with the duration."""


def holders_of(finding: Judgement) -> tuple[HeldDevices, ...]:
    """The claims a finding is about."""
    first = finding.details[0] if finding.details else None
    if isinstance(first, HeldDevices):
        return (first,)
    return (
        first if isinstance(first, tuple) and all(isinstance(h, HeldDevices) for h in first) else ()
    )


def strangers_of(finding: Judgement) -> tuple[Process, ...]:
    """The processes outside a lease that a finding is about."""
    found = finding.details[1] if len(finding.details) > 1 else ()
    if not isinstance(found, tuple):
        return ()
    return tuple(process for process in found if isinstance(process, Process))


def squatter(gpu: str, finding: Judgement) -> str:
    found, holders = strangers_of(finding), holders_of(finding)
    if not found or not holders:
        return f"{gpu} is used outside its lease"
    first = found[0]
    about = ", ".join(w for w in (first.user, program(_party(first))) if w)
    more = f" and {len(found) - 1} more" if len(found) > 1 else ""
    return f"{gpu}: used outside {_named(holders)} by pid {first.pid} ({about}){more}"


def idle_lease(subject: str, finding: Judgement, gpus: str = "") -> str:
    held = holders_of(finding)
    if not held:
        return f"{_capital(subject)} is idle"
    return f"{_capital(_named(held))} has left {gpus or 'its devices'} idle"


def orphan(subject: str, finding: Judgement, gpus: str = "") -> str:
    held = holders_of(finding)
    if not held:
        return f"{_capital(subject)} is orphaned"
    left = held[0].who
    first = f"pid {left[0].pid} ({program(left[0])})" if left else "its work"
    running = f"{first} and {len(left) - 1} more are" if len(left) > 1 else f"{first} is"
    why = f"its holder exited but {running} still running"
    withheld = f", {gpus} withheld" if gpus else ""
    return f"{_capital(_named(held))} is orphaned: {why}{withheld}"


def leftover_memory(gpu: str, finding: Judgement) -> str:
    former = finding.details[0] if finding.details else None
    size = human_bytes(finding.value or 0)
    if not isinstance(former, PreviousLease) or not former.id:
        return f"{gpu}: {size} still in use after a lease ended"
    return f"{gpu}: {size} still in use after {_lease(former.id, former.user)} ended"


def advice(rule: str, finding: Judgement) -> str | None:
    """Advice for this particular lease; None to use the rule's."""
    held = holders_of(finding)
    if not held or not held[0].id.startswith("lease:"):
        return None
    name, user = held[0].id.partition(":")[2], held[0].user
    if rule in ("idle", "idle_lease"):
        return f"If unused, {user or 'its owner'} can release it: andon release {name}"
    if rule == "orphan" and held[0].remedy:
        return f"Stop what is still running to free the devices: {held[0].remedy}"
    if rule == "squatter" and (found := strangers_of(finding)):
        whom = found[0].user or f"the owner of pid {found[0].pid}"
        return f"Ask {whom} to lease a device: andon run -- COMMAND"
    return None


def evidence(finding: Judgement) -> Mapping[str, float | str]:
    """Which lease, whose, and which processes."""
    former = finding.details[0] if finding.details else None
    if isinstance(former, PreviousLease):
        named = {"lease": former.id.rpartition(":")[2], "user": former.user}
        return {name: text for name, text in named.items() if text}
    held = holders_of(finding)
    if not held:
        return {}
    kind, _, name = held[0].id.partition(":")
    out: dict[str, float | str] = {kind: name, "since": held[0].since}
    if held[0].user:
        out["user"] = held[0].user
    pids = [process.pid for process in strangers_of(finding)]
    pids = pids or [party.pid for party in held[0].who if held[0].orphaned]
    return {**out, "pids": ", ".join(map(str, pids))} if pids else out


def program(party: Party) -> str:
    """What people call a process."""
    return program_of(party.command, party.name) or f"process {party.pid}"


def _party(process: Process) -> Party:
    return Party(process.pid, process.user, process.name, process.command, process.started)


def _named(holders: tuple[HeldDevices, ...]) -> str:
    shown = [_lease(held.id, held.user) for held in holders[:MOST_NAMED]]
    more = f" and {len(holders) - MOST_NAMED} more" if len(holders) > MOST_NAMED else ""
    return " and ".join(shown) + more


def _lease(number: str, user: str | None) -> str:
    kind, _, name = number.rpartition(":")
    called = f"{kind or 'lease'} {name}"
    return f"{called} ({user})" if user else called


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
