"""Starts and watches the process of each card: it may be wrong, hang, or fall off the bus.

This side calls no driver. A process that is stuck in the kernel keeps the lock of its lease.
"""

import json
import os
import select
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO, Any

from msgspec.structs import replace

from andon.checks.rules import lines
from andon.checks.rules.plan import END_SECONDS, SILENT_SECONDS, START_SECONDS, CheckPlan
from andon.errors import Unavailable
from andon.host.interpreter import module_environment, process_command
from andon.model.check import CardResult, CheckVerdict, PeerSpeed
from andon.model.codec import to_json
from andon.model.device import DeviceStatus, Sample, Snapshot, State
from andon.model.event import Event, EventKind
from andon.model.wire import dumps
from andon.sampling.bus import Subscription
from andon.sampling.rules.masks import VARIABLES

READING_SECONDS = 0.25
MOST_SNAPSHOTS, MOST_EVENTS = 4096, 4096
LOST_XID = 79
POLL_SECONDS = 0.1
_PIECE_BYTES = 1 << 16


class Readings:
    """What was read of all cards meanwhile; a sampler's thread adds to it."""

    def __init__(self, session: Subscription) -> None:
        self._snapshots: list[Snapshot] = []
        self._events: list[Event] = []
        session.call(self._add)

    def _add(self, snapshot: Snapshot) -> None:
        self._snapshots.append(snapshot)
        self._events += snapshot.events
        del self._snapshots[1:-MOST_SNAPSHOTS], self._events[MOST_EVENTS:]  # the first is "before"

    def samples(self, uuid: str, since: float, until: float) -> list[Sample]:
        found = (self._status(one, uuid) for one in list(self._snapshots))
        return [
            one.sample
            for one in found
            if one is not None and one.sample is not None and since <= one.sample.at <= until
        ]

    def latest(self, uuid: str) -> DeviceStatus | None:
        known = list(self._snapshots)
        return self._status(known[-1], uuid) if known else None

    def events(self, uuid: str, since: float) -> list[Event]:
        return [one for one in list(self._events) if one.uuid == uuid and one.at >= since]

    @staticmethod
    def _status(snapshot: Snapshot, uuid: str) -> DeviceStatus | None:
        return next((one for one in snapshot.devices if one.device.uuid == uuid), None)


class CardCheck:
    """The check of one card, in a thread of its own where there are several."""

    def __init__(
        self,
        begin: CardResult,
        plan: CheckPlan,
        readings: Readings,
        link: threading.Lock,
        descriptors: Sequence[int] = (),
    ) -> None:
        """`link` is held while the card uses its link: others share the switch above it."""
        self.result, self.stuck, self.part = begin, False, ""
        self._plan, self._readings, self._link = plan, readings, link
        self._descriptors = descriptors
        self._patience = START_SECONDS  # until its first line: a driver may start slowly
        self._part_since = time.time()
        self._unwanted = threading.Event()
        self._linked = False

    @property
    def is_well(self) -> bool:
        """Whether all was measured and nothing was wrong."""
        return self.result.verdict is CheckVerdict.UNJUDGED and not self.result.wrong

    def stop(self) -> None:
        """Ends the check from another thread."""
        self._unwanted.set()

    def run(self) -> CardResult:
        """Returns what was measured, or how it ended."""
        began = time.monotonic()
        uuid, encoded = self.result.uuid, dumps(to_json(self._plan))
        with TemporaryDirectory(prefix="andon-check-") as cache, TemporaryFile() as errors:
            process = start((uuid, encoded), [uuid], cache, errors, self._descriptors)
            try:
                self._follow(process, errors)
            finally:
                if self._linked:
                    self._link.release()
                self.stuck = not end(process)
        self._conclude()
        return replace(self.result, seconds=round(time.monotonic() - began, 3))

    def _follow(self, process: "subprocess.Popen[bytes]", errors: IO[bytes]) -> None:
        """Reads its lines until its last one, its end, or a silence that is too long."""
        for line in output_lines(process, lambda: self._patience, self._unwanted.is_set):
            if line is None:
                verdict = CheckVerdict.STOPPED if self._unwanted.is_set() else CheckVerdict.HUNG
                where = f" in {self.part}" if self.part else " while the driver started"
                text = f"no answer for {self._patience:g} s{where}"
                stopped = "stopped before its end"
                self._ended(verdict, stopped if verdict is CheckVerdict.STOPPED else text)
                return
            self._patience = SILENT_SECONDS
            if self._take(line, process):
                return
        errors.seek(0)
        tail = errors.read(4096).decode(errors="replace").strip().splitlines()[-1:]
        with suppress(subprocess.TimeoutExpired):
            process.wait(END_SECONDS)
        code = process.returncode
        how = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
        self._ended(CheckVerdict.FAILED, f"its process ended: {': '.join([how, *tail])}")

    def _take(self, line: Mapping[str, Any], process: "subprocess.Popen[bytes]") -> bool:
        """Takes one line; returns whether it is the last."""
        event, result = line.get("event"), self.result
        if event == "card":
            self.result = lines.with_card(result, line)
        elif event == "rows":
            self.result = lines.with_rows(result, line)
        elif event == "begin":
            self.part, self._part_since = str(line["part"]), time.time()
        elif event == "wrong":
            self.result = lines.with_wrong(result, line)
        elif event == "end":
            # The link is as wide as it gets in any part, and the copies are over in a moment.
            since = result.at if line["part"] == "link" else self._part_since
            samples = self._readings.samples(result.uuid, since, time.time())
            self.result = lines.with_end(result, line, samples)
        elif event == "skip":
            self.result = lines.with_skip(result, line)
        elif event == "wants_link":
            self._give_link(process)
        elif event == "failed":
            kind, text, code = line["kind"], line["text"], line["code"]
            self._ended(*lines.failure(kind, text, code, begun=bool(result.capability)))
        return event in ("done", "failed")

    def _give_link(self, process: "subprocess.Popen[bytes]") -> None:
        """Waits until no other card uses its link."""
        while not self._unwanted.is_set():
            if self._link.acquire(timeout=POLL_SECONDS):
                self._linked = True
                assert process.stdin is not None
                with suppress(BrokenPipeError):
                    process.stdin.write(b"go\n")
                    process.stdin.flush()
                return

    def _ended(self, verdict: CheckVerdict, text: str) -> None:
        self.result = replace(self.result, verdict=verdict, text=text)

    def _conclude(self) -> None:
        """Adds what the driver reported meanwhile: a lost card explains most failures."""
        result, after = self.result, self._readings.latest(self.result.uuid)
        events = self._readings.events(result.uuid, result.at)
        codes = [one.code for one in events if one.kind is EventKind.XID and one.code is not None]
        new_ecc = None
        before = self._readings.samples(result.uuid, 0.0, time.time())
        if before and after is not None and after.sample is not None:
            first, last = before[0].ecc_uncorrected, after.sample.ecc_uncorrected
            new_ecc = None if first is None or last is None else max(0, last - first)
        result = replace(
            result, events=tuple(f"Xid {one}" for one in dict.fromkeys(codes)), new_ecc=new_ecc
        )
        lost = LOST_XID in codes or (after is not None and after.state is State.LOST)
        if result.wrong:
            result = replace(result, verdict=CheckVerdict.UNJUDGED)  # the words decide
        elif lost:
            reason = "" if after is None or not after.reason else f": {after.reason}"
            result = replace(
                result, verdict=CheckVerdict.LOST, text=f"lost during the check{reason}"
            )
        elif result.verdict is CheckVerdict.HUNG and self.stuck:
            text = f"{result.text}, and its process cannot be ended: its lease is withheld"
            result = replace(result, text=text)
        self.result = result


def start(
    arguments: Sequence[str],
    uuids: Sequence[str],
    cache: str,
    errors: IO[bytes],
    descriptors: Sequence[int] = (),
) -> "subprocess.Popen[bytes]":
    """Starts a process that sees these cards alone, and holds these locks as long as it lives."""
    given = module_environment()
    for name in VARIABLES:
        given.pop(name, None)
    shown = {
        "CUDA_VISIBLE_DEVICES": ",".join(uuids),
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_CACHE_PATH": cache,
        "CUDA_MODULE_LOADING": "EAGER",
    }
    try:
        return subprocess.Popen(
            process_command("gpu-check", *arguments, site=False),
            env={**given, **shown},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            pass_fds=tuple(descriptors),
            process_group=0,  # Ctrl-C is for this side, which ends it
        )
    except OSError as exc:
        raise Unavailable(f"the process of a check cannot be started: {exc.strerror}") from exc


def output_lines(
    process: "subprocess.Popen[bytes]",
    silent_seconds: Callable[[], float],
    unwanted: Callable[[], bool] = lambda: False,
) -> Any:
    """Yields each line; None after a silence that is too long, or when it is unwanted."""
    assert process.stdout is not None
    descriptor, rest, heard = process.stdout.fileno(), b"", time.monotonic()
    while True:
        if unwanted() or time.monotonic() - heard > silent_seconds():
            yield None
            return
        if not select.select([descriptor], [], [], POLL_SECONDS)[0]:
            continue
        piece, heard = os.read(descriptor, _PIECE_BYTES), time.monotonic()
        if not piece:
            return
        *whole, rest = (rest + piece).split(b"\n")
        for one in whole:
            with suppress(ValueError):
                if isinstance(found := json.loads(one), dict):
                    yield found
                    heard = time.monotonic()  # the caller may have waited for a link meanwhile
        if len(rest) > lines.LONGEST_LINE:
            return


def end(process: "subprocess.Popen[bytes]") -> bool:
    """Ends the process; returns whether it is gone: one in the kernel stays."""
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()
    process.kill()
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        return False
    return True


def measure_peers(
    uuids: Sequence[str], labels: Sequence[str], descriptors: Sequence[int] = ()
) -> tuple[list[PeerSpeed], str, bool]:
    """Measures from each card to each other, in a process that sees them all. Returns also why that
    ended early, and whether the process cannot be ended, which keeps these locks."""
    found, why, stuck = list[PeerSpeed](), "its process ended", False
    with TemporaryDirectory(prefix="andon-check-") as cache, TemporaryFile() as errors:
        process = start(("peers", *uuids), uuids, cache, errors, descriptors)
        try:
            for line in output_lines(process, lambda: START_SECONDS):
                if line is None or line.get("event") in ("done", "failed"):
                    line = line or {"text": f"no answer for {START_SECONDS:g} s"}
                    why = str(line.get("text", ""))
                    break
                if line.get("event") == "peer":
                    ends = labels[line["source"]], labels[line["target"]]
                    found.append(PeerSpeed(*ends, line["value"], line["direct"], line["right"]))
        finally:
            stuck = not end(process)
    return found, why, stuck
