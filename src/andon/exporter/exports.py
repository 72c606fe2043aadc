"""Sends the metrics to other systems while a server runs, through a queue on disk.

One thread renders each snapshot that is due and puts it into the queue; another sends what waits,
oldest first and one at a time, and takes from the queue what was answered. So a receiver that is
slow or away delays neither the sampling nor another export.
"""

import logging
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec.structs import asdict, replace

from andon.errors import AndonError, Unavailable
from andon.exporter.exposition import Exposition
from andon.exporter.receiver import Receiver
from andon.exporter.rules import otlp, remote_write
from andon.exporter.rules.answers import SendResult, SendVerdict
from andon.exporter.spreads import ExportCounts, ServerCounts
from andon.failures.log import FailureLog
from andon.failures.retrying import Retrying, RetryTexts
from andon.failures.rules.backoff import BackOff
from andon.host.spool import Spool
from andon.model.device import Snapshot
from andon.node.port import SnapshotSession
from andon.node.watched.live import ServedLive
from andon.settings.exports import REMOTE_WRITE, ExportSettings
from andon.settings.resolution import Settings

log = logging.getLogger("andon.export")
AGAIN = BackOff(first_seconds=1.0, most_seconds=60.0, at_once=0)
MOST_IN_MEMORY = 40  # requests, while the queue cannot be written
END_SECONDS = 3.0  # for the answer to what is being sent
Pack = Callable[[str, float], bytes]


class ExportQueue:
    """The requests that wait: on disk, and a few in memory while the disk is full. They are taken
    in the order in which they were added."""

    def __init__(self, folder: Path, report: Callable[[str], None]) -> None:
        self._folder = folder
        self._spool: Spool | None = None
        self._memory: deque[bytes] = deque()
        self._lost = 0
        texts = RetryTexts(
            lambda reason: f"{reason}; {MOST_IN_MEMORY} requests at most wait in memory",
            lambda lasted: f"its queue can be written again, after {lasted}",
        )
        self._writing = Retrying(report, texts)
        self._writing.attempt(self._opened)

    @property
    def trouble(self) -> AndonError | None:
        return self._writing.trouble

    @property
    def dropped(self) -> int:
        return (0 if self._spool is None else self._spool.dropped) + self._lost

    def __len__(self) -> int:
        return (0 if self._spool is None else len(self._spool)) + len(self._memory)

    def put(self, body: bytes) -> None:
        # What is in memory is sent after all that is on disk: nothing is written before it is.
        if not self._memory and self._writing.attempt(lambda: self._opened().put(body)) is None:
            self._writing.succeeded()
            return
        if len(self._memory) >= MOST_IN_MEMORY:
            self._memory.popleft()
            self._lost += 1
        self._memory.append(body)

    def first(self) -> tuple[int | None, bytes] | None:
        """Returns the oldest request, with its number if it is on disk; None if nothing waits."""
        for item in self._spool.waiting() if self._spool is not None else ():
            return item.sequence, item.body
        try:
            return None, self._memory[0]
        except IndexError:
            return None

    def done(self, number: int | None, body: bytes) -> None:
        if number is not None:
            self._opened().done(number)
        elif self._memory and self._memory[0] is body:
            self._memory.popleft()

    def close(self) -> None:
        if self._spool is not None:
            self._spool.close()

    def _opened(self) -> Spool:
        if self._spool is None:
            self._spool = Spool(self._folder)
        return self._spool


class Export:
    """One export. Any thread may read its counts and health."""

    def __init__(
        self,
        settings: ExportSettings,
        session: SnapshotSession,
        render: Callable[[Snapshot], str],
        pack: Pack,
        receiver: Receiver,
        folder: Path,
        back_off: BackOff = AGAIN,
    ) -> None:
        self.settings = settings
        self._session, self._render, self._pack = session, render, pack
        self._receiver = receiver
        self._queue = ExportQueue(folder, self._report)
        self._sent = self._refused = self._failures = 0
        self._last_sent: float | None = None
        self._last_refusal: str | None = None
        self._not_before = 0.0  # on the monotonic clock
        texts = RetryTexts(
            lambda reason: f"{settings.place}: {reason}",
            lambda lasted: f"{settings.place} accepts again, after {lasted}",
        )
        self._sending = Retrying(self._report, texts, back_off=back_off)
        self._unexpected = FailureLog("andon.export", f"export {settings.name} failed; continuing")
        self._added, self._ended = threading.Event(), threading.Event()
        self._threads = [
            threading.Thread(target=loop, name=f"export {settings.name}", daemon=True)
            for loop in (self._fill, self._empty)
        ]
        for thread in self._threads:
            thread.start()

    def counts(self) -> ExportCounts:
        queue = self._queue
        return ExportCounts(
            self.settings.name, self._sent, self._refused, self._failures,
            queue.dropped + self._session.dropped, len(queue),
        )  # fmt: skip

    def health(self) -> dict[str, Any]:
        failures = self._sending.failures
        trouble = failures.trouble or self._queue.trouble
        return {
            **asdict(self.counts()),
            "kind": self.settings.kind,
            "url": self.settings.place,
            "ok": trouble is None,
            "reason": None if trouble is None else trouble.reason,
            "hint": None if trouble is None else trouble.hint or None,
            "since": failures.since,
            "last_sent": self._last_sent,
            "last_refusal": self._last_refusal,
        }

    def end(self) -> None:
        """Stops; waiting requests stay on disk. Does not block."""
        self._session.close()
        self._ended.set()
        self._added.set()

    def join(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))
        self._queue.close()

    def _report(self, text: str) -> None:
        log.warning("export %s: %s", self.settings.name, text)

    # The thread that renders.

    def _fill(self) -> None:
        for snapshot in self._session:
            try:
                self._queue.put(self._pack(self._render(snapshot), snapshot.at))
                self._added.set()
            except Exception as exc:  # noqa: BLE001 - logged, and the next snapshot is tried
                self._unexpected.add(exc)

    # The thread that sends.

    def _empty(self) -> None:
        while not self._ended.is_set():
            try:
                self._added.clear()
                while not self._ended.is_set() and self._send_next():
                    pass
                self._receiver.rest()
                self._added.wait()
            except Exception as exc:  # noqa: BLE001 - logged and shown, and tried again
                self._unexpected.add(exc)
                self._sending.failed(Unavailable("failed by an unexpected error in andon"))
                self._sending.pause(self._ended)

    def _send_next(self) -> bool:
        """Sends the oldest request, or waits until its retry; returns False if there is none."""
        found = self._queue.first()
        if found is None:
            return False
        wait = max(self._sending.due, self._not_before) - time.monotonic()
        if wait > 0:
            self._receiver.rest()
            self._ended.wait(wait)
            return True
        result = self._receiver.send(found[1])
        self._note(result)
        if result.verdict is not SendVerdict.AGAIN:
            self._queue.done(*found)
        return True

    def _note(self, result: SendResult) -> None:
        if result.verdict is SendVerdict.AGAIN:
            self._failures += 1
            self._not_before = time.monotonic() + result.wait_seconds
            self._sending.failed(result.trouble or Unavailable("did not answer"))
            return
        self._sending.succeeded()
        if result.trouble is None:
            self._sent += 1
            self._last_sent = time.time()
            self._last_refusal = None
            return
        self._refused += 1
        if self._last_refusal != result.trouble.reason:
            self._last_refusal = result.trouble.reason
            self._report(f"{self.settings.place}: {result.trouble.reason}; it is not sent again")


class Exports:
    """All exports of a server."""

    def __init__(self) -> None:
        self._exports: list[Export] = []

    def add(self, export: Export) -> None:
        self._exports.append(export)

    def added_to(self, counts: ServerCounts) -> ServerCounts:
        """Returns a server's counts with those of the exports."""
        return replace(counts, exports=tuple(one.counts() for one in self._exports))

    def health(self) -> dict[str, Any]:
        """Returns the part `exports` of `/api/health`."""
        rows = [one.health() for one in self._exports]
        failing = [row["name"] for row in rows if not row["ok"]]
        return {
            "state": "degraded" if failing else "ok",
            "reason": f"failing exports: {', '.join(failing)}" if failing else None,
            "exports": rows,
        }

    def close(self) -> None:
        for one in self._exports:
            one.end()
        end = time.monotonic() + END_SECONDS
        for one in self._exports:
            one.join(end - time.monotonic())


def packer(settings: ExportSettings, prefix: str, node: str) -> tuple[Pack, dict[str, str]]:
    """Returns the function that makes a request's body, and the headers that describe it. Raises
    Unavailable if a package is missing."""
    if settings.kind != REMOTE_WRITE:
        otlp_messages = otlp.OtlpMessages(prefix, node, settings.labels)
        return lambda text, at: _gzip(otlp_messages.make(text, at)), otlp.HEADERS
    try:
        from cramjam import snappy
    except ImportError as exc:
        raise Unavailable(
            f"export {settings.name}: remote-write needs the package cramjam",
            hint="pip install 'andon[export]'",
        ) from exc
    labels = {"job": "andon", "instance": node, **settings.labels}
    messages = remote_write.RemoteWriteMessages(labels)
    compress = snappy.compress_raw
    return lambda text, at: bytes(compress(messages.make(text, at))), remote_write.HEADERS


def open_exports(
    settings: Settings, name: str, live: ServedLive, folder: Path,
    counts: Callable[[], ServerCounts],
) -> Exports:  # fmt: skip
    """Starts the exports of a node's readings. Raises Unavailable if one cannot be made."""
    prefix, exports = settings.exporter_prefix, Exports()
    exposition = Exposition(prefix)

    def render(snapshot: Snapshot) -> str:
        known = exports.added_to(counts())
        return exposition.render(snapshot, live.costs(), time.time(), counts=known)

    made = [(one, *packer(one, prefix, name)) for one in settings.exports]
    for one, pack, headers in made:
        session = live.subscribe(one.interval_seconds)
        receiver = Receiver(one, headers)
        exports.add(Export(one, session, render, pack, receiver, folder / one.queue))
    return exports


def _gzip(content: bytes) -> bytes:
    packing = zlib.compressobj(1, zlib.DEFLATED, 31)
    return packing.compress(content) + packing.flush()
