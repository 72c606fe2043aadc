"""Reads the folder of jobs: everything once, afterwards only what changed.

What a job's folder holds is kept with the folder's time. Where an attempt is going on, its own
folder is looked at each time. `index.json` keeps the same between commands; it is only a cache.
"""

import fcntl
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from andon.engine.jobs.folder import (
    AGAIN,
    CANCELLED,
    CLAIM,
    END,
    EXPIRED,
    HELD,
    INDEX,
    JOB,
    ORDER,
    SMALL_BYTES,
    VERDICT,
    JobsFolder,
    attempts_in,
    is_number,
    write_whole,
)
from andon.host.kin import group_members, here, started_ticks
from andon.host.private_files import read_regular
from andon.model.job import AttemptClaim, AttemptFacts, JobFacts, JobNote
from andon.model.job import wire as job_wire
from andon.model.json_fields import Wrong, table_of

RACY_NANOSECONDS = 2_000_000_000
"""A folder that changed this recently may change again without its time showing it."""
WORTH_INDEXING = 200  # folders that were read without a cache
LARGEST_INDEX_BYTES = 256 * 1024 * 1024
INDEX_SCHEMA = "andon.job-index/1"


@dataclass(frozen=True, slots=True)
class _Known:
    """A job as it was read, and its folder's time then."""

    stamp: int
    facts: JobFacts
    final: bool  # no attempt is going on: only a new file in the folder can change it


class Scanner:
    """The jobs in one folder. Not thread-safe."""

    def __init__(self, folder: JobsFolder, index: bool = True) -> None:
        self.folder = folder
        self.unread: dict[str, str] = {}  # files that were passed over, and why
        self._known: dict[int, _Known] = {}
        self._lazy: dict[int, tuple[int, Any]] = _read_index(folder.path) if index else {}
        self._read = 0  # folders that were read, not known

    def scan(self) -> dict[int, JobFacts]:
        """Every readable job by its number, in the order of numbers."""
        now, found = time.time_ns(), dict[int, _Known]()
        for number, stamp in self._folders():
            known = self._known.get(number) or self._indexed(number)
            if known is not None and known.stamp == stamp and known.final:
                found[number] = known
                continue
            fresh = self._job(number, stamp, now)
            if fresh is not None:
                found[number] = fresh
        self._known = found
        self._lazy = {}
        return {number: known.facts for number, known in found.items()}

    def again(self, number: int) -> JobFacts | None:
        """One job, read now; None where it is gone."""
        try:
            stamp = self.folder.job(number).stat().st_mtime_ns
        except OSError:
            return None
        known = self._job(number, stamp, time.time_ns())
        if known is None:
            return None
        self._known[number] = known
        return known.facts

    def save(self, at_least: int = WORTH_INDEXING) -> None:
        """Write the index where that spares others much reading."""
        if self._read < at_least:
            return
        jobs = {
            str(number): [known.stamp, _to_index(known.facts)]
            for number, known in self._known.items()
            if known.final
        }
        text = job_wire.dumps({"schema": INDEX_SCHEMA, "boot": here().boot, "jobs": jobs})
        with suppress(OSError):
            write_whole(self.folder.path, INDEX, text, sync=False)
            self._read = 0

    def _folders(self) -> list[tuple[int, int]]:
        out: list[tuple[int, int]] = []
        try:
            with os.scandir(self.folder.path) as entries:
                for entry in entries:
                    if is_number(entry.name):
                        with suppress(OSError):
                            stamp = entry.stat(follow_symlinks=False).st_mtime_ns
                            out.append((int(entry.name), stamp))
        except FileNotFoundError:
            return []
        return sorted(out)

    def _indexed(self, number: int) -> _Known | None:
        kept = self._lazy.get(number)
        if kept is None:
            return None
        try:
            return _Known(kept[0], _from_index(table_of(kept[1])), True)
        except (Wrong, KeyError, TypeError, ValueError):
            return None

    def _job(self, number: int, stamp: int, now: int) -> _Known | None:
        folder = self.folder.job(number)
        self._read += 1
        try:
            facts = self._facts(folder, number)
        except FileNotFoundError:  # being written, or being removed
            return None
        except (OSError, Wrong) as exc:
            self.unread[str(folder / JOB)] = str(getattr(exc, "strerror", None) or exc)
            return None
        last = facts.last
        settled = last is None or last.verdict is not None
        settled = settled and abs(now - stamp) > RACY_NANOSECONDS
        return _Known(stamp, facts, settled)

    def _facts(self, folder: Path, number: int) -> JobFacts:
        content = read_regular(folder / JOB, job_wire.LARGEST_JOB_BYTES)
        spec = job_wire.spec_from_json(job_wire.loads(content), environment=False)
        if spec.number != number:
            raise Wrong("number", f"is {spec.number}, not that of its folder")
        names = set(os.listdir(folder))  # noqa: PTH208 - names alone
        return JobFacts(
            spec,
            held=HELD in names,
            cancelled=self._note(folder, CANCELLED) if CANCELLED in names else None,
            again=self._note(folder, AGAIN) if AGAIN in names else None,
            expired=self._note(folder, EXPIRED) if EXPIRED in names else None,
            order=self._order(folder) if ORDER in names else None,
            attempts=self._attempts(folder) if any(n.startswith("attempt-") for n in names) else (),
        )

    def _attempts(self, folder: Path) -> tuple[AttemptFacts, ...]:
        found = []
        for number in attempts_in(folder):
            attempt = self._attempt(folder / f"attempt-{number}", number)
            if attempt is not None:
                found.append(attempt)
        return tuple(found)

    def _attempt(self, folder: Path, number: int) -> AttemptFacts | None:
        """An attempt without a claim has not started."""
        try:
            descriptor = os.open(folder / CLAIM, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            locked = is_locked(descriptor)
            claim = job_wire.claim_from_json(job_wire.loads(os.read(descriptor, SMALL_BYTES)))
        except (OSError, Wrong) as exc:
            self.unread[str(folder / CLAIM)] = str(exc)
            return None
        finally:
            os.close(descriptor)
        # After the lock: a supervisor writes the end before it gives up the claim.
        end = self._small(folder, END, job_wire.end_from_json)
        verdict = self._small(folder, VERDICT, job_wire.verdict_from_json)
        alive = end is None and not locked and group_lives(claim)
        return AttemptFacts(number, claim, locked, alive, end, verdict)

    def _note(self, folder: Path, name: str) -> JobNote | None:
        found: JobNote | None = self._small(folder, name, job_wire.note_from_json)
        return found

    def _order(self, folder: Path) -> float | None:
        with suppress(OSError, ValueError):
            found = float(read_regular(folder / ORDER, 64))
            return found if abs(found) < 1e15 else None
        return None

    def _small(self, folder: Path, name: str, read: Callable[[dict[str, Any]], Any]) -> Any:
        try:
            return read(job_wire.loads(read_regular(folder / name, SMALL_BYTES)))
        except FileNotFoundError:
            return None
        except (OSError, Wrong) as exc:
            self.unread[str(folder / name)] = str(getattr(exc, "strerror", None) or exc)
            return None


def is_locked(descriptor: int) -> bool:
    """Tested with a shared lock, which is never mistaken for a holder's."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    return False


def group_lives(claim: AttemptClaim) -> bool:
    """Whether a process of the command's group lives; it is the leader of its own session."""
    if claim.boot != here().boot or claim.group <= 1:
        return False
    started = started_ticks(claim.group)
    if started is not None:
        return started == claim.group_ticks
    members = group_members({claim.group}).get(claim.group, ())
    return any(
        one.session == claim.group and one.started_ticks >= claim.group_ticks and not one.ended
        for one in members
    )


def _read_index(path: Path) -> dict[int, tuple[int, Any]]:
    try:
        said = job_wire.loads(read_regular(path / INDEX, LARGEST_INDEX_BYTES))
        if said.get("schema") != INDEX_SCHEMA:
            return {}
        jobs = table_of(said.get("jobs"))
        return {int(n): (int(one[0]), one[1]) for n, one in jobs.items() if is_number(n)}
    except (OSError, Wrong, TypeError, ValueError, IndexError, KeyError):
        return {}


def _to_index(facts: JobFacts) -> dict[str, Any]:
    """Without what is not there: most jobs have little."""
    spec = job_wire.spec_to_json(facts.spec)
    kept = {k: v for k, v in spec.items() if v is not None and v is not False and v not in ([], {})}
    out: dict[str, Any] = {"spec": kept}
    for name in ("cancelled", "again", "expired"):
        note = getattr(facts, name)
        if note is not None:
            out[name] = job_wire.note_to_json(note)
    if facts.held:
        out["held"] = True
    if facts.order is not None:
        out["order"] = facts.order
    if facts.attempts:
        out["attempts"] = [_attempt_to_index(one) for one in facts.attempts]
    return out


def _attempt_to_index(one: AttemptFacts) -> dict[str, Any]:
    out: dict[str, Any] = {"number": one.number, "claim": job_wire.claim_to_json(one.claim)}
    if one.end is not None:
        out["end"] = job_wire.end_to_json(one.end)
    if one.verdict is not None:
        out["verdict"] = job_wire.verdict_to_json(one.verdict)
    return out


def _from_index(value: dict[str, Any]) -> JobFacts:
    notes = {
        name: job_wire.note_from_json(table_of(value[name])) if name in value else None
        for name in ("cancelled", "again", "expired")
    }
    order = value.get("order")
    return JobFacts(
        job_wire.spec_from_json(table_of(value["spec"]), environment=False),
        held=value.get("held") is True,
        order=float(order) if isinstance(order, int | float) else None,
        attempts=tuple(_attempt_from_index(table_of(one)) for one in value.get("attempts", ())),
        **notes,
    )


def _attempt_from_index(value: dict[str, Any]) -> AttemptFacts:
    """Only settled attempts are kept: none is locked, none lives."""
    end, verdict = value.get("end"), value.get("verdict")
    return AttemptFacts(
        int(value["number"]),
        job_wire.claim_from_json(table_of(value["claim"])),
        end=None if end is None else job_wire.end_from_json(table_of(end)),
        verdict=None if verdict is None else job_wire.verdict_from_json(table_of(verdict)),
    )
