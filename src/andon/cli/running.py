"""Runs a command on devices, with its environment and its record; for `run` and `lease`."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from andon.cli.outfile import LineFile
from andon.cli.show import csv_rows
from andon.cli.terminal import Choices, notice
from andon.core.processes.redaction import redact
from andon.core.runs.oom import Strain, Verdict, verdict
from andon.core.runs.usage_words import usage_words
from andon.core.sharing.launching import environment
from andon.engine.running.launcher import Launcher
from andon.engine.running.runlog import RunLog, path_in
from andon.engine.sampling.sampler import Sampler
from andon.engine.sharing.availability import AvailabilityView
from andon.engine.sharing.granter import Grant
from andon.errors import Conflict, Gone
from andon.host.kin import here, user_name
from andon.host.server.state_folder import state_folder
from andon.leases.book import Book
from andon.leases.hold import LeaseHold
from andon.leases.holders import LockTable, strangers
from andon.leases.rejoin import Presence
from andon.leases.release_notes import read_note
from andon.model.device import Device, DeviceStatus, Snapshot
from andon.model.naming import device_labels, title
from andon.model.release_note import ReleaseNote
from andon.model.work import DeviceRequest, Lease
from andon.units import MIB, human_seconds

RECORD_VARIABLE = "ANDON_RECORD"  # tells the command where its record is
WARN_SECONDS = 300.0  # how long before its end the owner is warned
VMSTAT = Path("/proc/vmstat")


@dataclass(frozen=True, slots=True)
class Attached:
    """A lease of ours that another process holds, and its devices as they are now."""

    lease: Lease
    devices: tuple[Device, ...]
    snapshot: Snapshot


def attached(name: str, view: AvailabilityView, request: DeviceRequest) -> Attached:
    """One of this user's leases by its id; it must hold enough devices, all present."""
    path, found, lease = Book(make=False).find(name)
    if found.uid != os.getuid():
        raise Conflict(f"lease {lease.id} belongs to {user_name(found.uid)}")
    if strangers(path, found.name, lease, found.uid, here(), LockTable()):
        raise Gone(f"lease {lease.id} has lost its holder", hint=f"andon release {lease.id}")
    present = {s.device.uuid: s.device for s in view.snapshot.devices}
    missing = [share.index for share in lease.shares if share.uuid not in present]
    if missing:
        raise Gone(f"{title(str(missing[0]))} of lease {lease.id} is no longer present")
    if request.least > len(lease.shares):
        raise Conflict(
            f"{request.least} GPUs requested, but lease {lease.id} holds {len(lease.shares)}",
            hint="to request others, omit --lease and unset ANDON_LEASE",
        )
    shares = lease.shares if request.least == 1 else lease.shares[: request.most]
    return Attached(lease, tuple(present[share.uuid] for share in shares), view.snapshot)


def larger(request: DeviceRequest, grant: Grant) -> DeviceRequest:
    """The same request with more memory: 1.5 times its share, else a larger device."""
    had = [capacity.free_bytes or 0 for capacity in grant.candidates.choice.chosen]
    asked = request.memory_bytes or 0
    if request.shared:
        return replace(request, memory_bytes=asked * 3 // 2)
    return replace(request, memory_bytes=max(asked, min(had)) + MIB)


@dataclass(frozen=True, slots=True)
class RecordOptions:
    """How a run is recorded: under which name, where, and whether as CSV too."""

    name: str | None = None
    folder: Path | None = None
    csv: bool = False


class Running:
    """A command to run, once per attempt."""

    def __init__(
        self,
        choices: Choices,
        command: Sequence[str],
        sampler: Sampler,
        record: RecordOptions | None = None,
        interactive: bool = False,
        shell: bool = False,
    ) -> None:
        self._choices, self._command, self._sampler = choices, list(command), sampler
        self._record = record or RecordOptions()
        self._interactive, self._shell = interactive, shell
        self.words = redact(tuple(command))

    def on_grant(self, grant: Grant) -> tuple[int, Verdict]:
        """Run it on the granted devices, and release them whatever happens."""
        chosen = tuple(capacity.status.device for capacity in grant.candidates.choice.chosen)
        facts = {"waited_seconds": round(grant.waited_seconds, 3), "choice": _choice(grant)}
        try:
            return self._run(grant.held.lease, chosen, grant.candidates.snapshot, facts, grant.held)
        finally:
            grant.held.release()

    def on_lease(self, found: Attached) -> tuple[int, Verdict]:
        """Run it on a lease held elsewhere, without ending that lease."""
        return self._run(found.lease, found.devices, found.snapshot, {}, None)

    def _run(
        self,
        lease: Lease,
        chosen: Sequence[Device],
        snapshot: Snapshot,
        facts: dict[str, Any],
        held: LeaseHold | None,
    ) -> tuple[int, Verdict]:
        everyone = [status.device for status in snapshot.devices]
        names = device_labels(snapshot.devices)
        where = title(", ".join(names[device.uuid] for device in chosen))
        log, released = self._log(chosen), LeaseRelease(held)
        variables = {**os.environ, **environment(chosen, everyone, lease.id)}
        if log.writes:
            variables[RECORD_VARIABLE] = str(log.path.absolute())
        launcher = Launcher(
            self._command,
            variables,
            held.hold if held else None,
            self._interactive,
            tapped=not self._interactive,
            asked_by=released.words,
            shell=self._shell,
        )
        log.begin(lease, {**self._facts(chosen, snapshot), **facts})
        log.follow(self._sampler, snapshot)
        kills = _host_kills()
        if not self._interactive:  # `andon lease` has said so
            self._notify(f"running on {where} (lease {lease.id})")
        end: dict[str, Any] = {"exit_code": None, "outcome": "not_started"}
        try:
            outcome = launcher.run(_Check(held, self._notify), self._notify)
            if held is not None:
                held.release()  # before anything else: others are waiting for it
            strains = [_strain(status, names) for status in log.latest_of_run()]
            judged = verdict(
                outcome.code,
                outcome.signal,
                outcome.tail,
                strains,
                _host_kills() - kills,
                outcome.ended_for,
                outcome.interrupted,
            )
            end = {
                "exit_code": outcome.code,
                "signal": outcome.signal,
                "duration_seconds": round(outcome.seconds, 3),
                "outcome": str(judged.end),
                "message": judged.words,
                "reported_by": judged.reported_by,
                **released.facts(),
            }
            return outcome.code, judged
        finally:
            log.end(end)
            if (seconds := end.get("duration_seconds")) is not None:
                used = usage_words(where, seconds, list(log.tallies.result().values()))
                self._notify(f"{used}; record: {log.path}" if log.writes else used)

    def _log(self, chosen: Sequence[Device]) -> RunLog:
        name = self._record.name or _name(self._command)
        uuids = frozenset(device.uuid for device in chosen)
        folder = self._record.folder or state_folder() / "runs"
        path = path_in(folder, name, time.time())
        also = self._csv(path.with_suffix(".csv"), uuids) if self._record.csv else None
        return RunLog(path, sorted(uuids), self._notify, also)

    def _csv(self, path: Path, uuids: frozenset[str]) -> Callable[[Snapshot], None]:
        """Writes the same samples as CSV, beside the record."""
        file = LineFile(path, csv_rows.header(), self._notify)

        def write(snapshot: Snapshot) -> None:
            with suppress(OSError):  # `append` reports what fails
                path.touch(0o600)  # its users are nobody else's business
            mine = tuple(s for s in snapshot.devices if s.device.uuid in uuids)
            for row in csv_rows.device_rows(replace(snapshot, devices=mine)):
                file.append(row)

        return write

    def _facts(self, chosen: Sequence[Device], snapshot: Snapshot) -> dict[str, Any]:
        return {
            "name": self._record.name or _name(self._command),
            "node": snapshot.node,
            "user": user_name(os.getuid()),
            "command": self.words,
            "working_directory": os.getcwd(),  # noqa: PTH109 - it may have been removed, and is only shown
            "pid": os.getpid(),
            "simulated": snapshot.simulated,
            "devices": [device.uuid for device in chosen],
            "indices": [device.index for device in chosen],
        }

    def _notify(self, text: str) -> None:
        notice(text, self._choices)


class LeaseRelease:
    """Who ended this lease from elsewhere; read once, when the holder is asked to stop."""

    def __init__(self, held: LeaseHold | None) -> None:
        self._held = held
        self._found: ReleaseNote | None = None

    def words(self) -> str | None:
        if self._held is None:
            return None
        self._found = self._found or read_note(self._held.hold)
        return None if self._found is None else self._found.words(self._held.lease.id)

    def facts(self) -> dict[str, str]:
        """For the record."""
        found = self._found
        return {} if found is None else {"released_by": found.by, "release_note": found.note}


class _Check:
    """Whether the command must stop, checked about once a second."""

    def __init__(self, held: LeaseHold | None, notify: Any) -> None:
        self._held, self._notify, self._warned = held, notify, False
        self._presence = Presence(held.hold, notify) if held else None

    def __call__(self) -> str | None:
        if self._held is None or self._presence is None:
            return None
        self._presence.check()
        left, name = self._held.left_seconds(), self._held.lease.id
        if left is None or self._held.countdown is None:
            return None
        if left <= 0:
            return f"lease {name} expired"
        length = self._held.countdown.end.length_seconds
        if left <= min(WARN_SECONDS, length / 4) and not self._warned:
            self._warned = True
            more = f"to extend it: andon lease extend {name} --for 1h"
            self._notify(f"lease {name} ends in {human_seconds(left)}; {more}")
        return None


def _choice(grant: Grant) -> dict[str, Any]:
    """The choice for the run record: the method, and every candidate with its values."""
    models = {s.device.uuid: s.device.name for s in grant.candidates.snapshot.devices}
    return {
        "method": "score",
        "world_size": len(grant.candidates.choice.chosen),
        "candidates": [
            {
                "uuid": c.uuid,
                "index": c.index,
                "name": models.get(c.uuid),
                "free_bytes": c.free_bytes,
                "utilization_percent": c.utilization_percent,
                "score": None if c.score is None else round(c.score, 4),
                "chosen": c.chosen,
                "reason": None if c.obstacle is None else c.obstacle.words,
            }
            for c in grant.candidates.choice.candidates
        ],
    }


def _name(command: Sequence[str]) -> str:
    """The script's name rather than its interpreter's."""
    first = Path(command[0]).name
    if first.startswith("python") and len(command) > 1 and not command[1].startswith("-"):
        return Path(command[1]).name
    return first


def _strain(status: DeviceStatus, names: Mapping[str, str]) -> Strain:
    sample = status.sample
    return Strain(
        names.get(status.device.uuid) or str(status.device.index),
        sample.memory_used_bytes if sample else None,
        status.device.memory_total_bytes,
    )


def _host_kills() -> int:
    """How many processes the kernel's OOM killer has killed since boot."""
    try:
        for line in VMSTAT.read_text("ascii").splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    except (OSError, ValueError):
        return 0
    return 0
