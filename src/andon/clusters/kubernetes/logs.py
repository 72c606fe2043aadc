"""The output of a job's pods, one after the other, cached while it is followed.

The API returns a log from its beginning only, so what was read stays in a file without a name, and
from the second read on the rest comes by a stream.
"""

import os
import threading
import weakref
from collections.abc import Sequence
from contextlib import suppress
from tempfile import TemporaryFile
from typing import Final

from andon.clusters.kubernetes.listing import with_query
from andon.clusters.kubernetes.rules.manifest import CONTAINER
from andon.clusters.kubernetes.rules.objects import ApiPod
from andon.clusters.kubernetes.rules.states import started_at
from andon.clusters.kubernetes.transport import ApiTransport
from andon.errors import AndonError, Gone
from andon.jobs.outputs import part_of
from andon.model.job.desk import LogPart

STREAM_SECONDS: Final = 3600.0
ENDED: Final = ("Succeeded", "Failed")


class PodLog:
    """The output of one pod, as far as it was read."""

    def __init__(self, transport: ApiTransport, pod: ApiPod) -> None:
        self._transport = transport
        with TemporaryFile() as file:
            self._file = os.dup(file.fileno())
        weakref.finalize(self, os.close, self._file)
        names = [one.name for one in pod.spec.containers or ()]
        container = CONTAINER if CONTAINER in names else (names or [""])[0]
        meta = pod.metadata
        path = f"/api/v1/namespaces/{meta.namespace}/pods/{meta.name}/log"
        self._path, self._container = path, container
        self._lock, self._size, self._was_read = threading.Lock(), 0, False
        self._complete, self._streaming = False, False

    @property
    def size(self) -> int:
        return self._size

    @property
    def complete(self) -> bool:
        """Whether the whole output has been read."""
        return self._complete

    def refresh(self, ended: bool) -> None:
        """Reads what there is now, unless a stream is reading it."""
        with self._lock:
            if self._complete or self._streaming:
                return
        if self._was_read and not ended:
            self._streaming = True
            threading.Thread(target=self._follow, name="pod log", daemon=True).start()
            return
        path = with_query(self._path, container=self._container)
        try:
            self._replace(self._transport.ask("GET", path))
        except Gone:  # the pod was removed meanwhile: what was read stays
            ended = True
        self._was_read, self._complete = True, ended

    def part(self, start: int, most_bytes: int) -> bytes:
        return os.pread(self._file, most_bytes, start)

    def _replace(self, content: bytes) -> None:
        with self._lock:
            if len(content) > self._size:
                os.pwrite(self._file, content[self._size :], self._size)
                self._size = len(content)

    def _follow(self) -> None:
        """Reads the stream from its beginning; what was read before is skipped."""
        path, seen = with_query(self._path, container=self._container, follow="true"), 0
        with suppress(AndonError):
            for piece in self._transport.stream(path, STREAM_SECONDS):
                seen += len(piece)
                with self._lock:
                    if seen > self._size:
                        os.pwrite(self._file, piece[-(seen - self._size) :], self._size)
                        self._size = seen
        with self._lock:  # the next call reads it whole, once it has ended
            self._streaming = False


class JobLogs:
    """The outputs of the jobs that were read, cached."""

    def __init__(self, transport: ApiTransport) -> None:
        self._transport, self._logs = transport, dict[str, PodLog]()

    def read(
        self, pods: Sequence[ApiPod], start: int | None, most_bytes: int, settled: bool
    ) -> LogPart:
        """Returns a part of the output of these pods, oldest first, of whole characters."""
        logs = list[PodLog]()
        for pod in pods:
            ended = pod.status.phase in ENDED
            if started_at(pod) is None and not ended:
                continue
            log = self._logs.setdefault(pod.metadata.uid, PodLog(self._transport, pod))
            log.refresh(ended)
            logs.append(log)
        size = sum(log.size for log in logs)
        begin = max(0, size - most_bytes) if start is None else min(start, size)
        content, at = b"", 0
        for log in logs:
            if begin < at + log.size and len(content) < most_bytes:
                content += log.part(max(0, begin - at), most_bytes - len(content))
            at += log.size
        over = settled and all(log.complete for log in logs)  # a stream may still bring the end
        return part_of(content[:most_bytes], begin, size, over)
