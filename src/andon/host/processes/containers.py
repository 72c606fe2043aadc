"""Names of containers, from the engine that runs them: people know them from `docker ps`.

A separate thread asks, so that an engine that hangs delays a sample by its timeout at most. Only
sockets that this user may open are asked, and a container without an answer is shown by its id.
"""

import functools
import os
import stat
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from queue import Full, Queue
from typing import Any

from msgspec import Struct

from andon.host.rules.attribution import UNKNOWN, Container, RuntimeNames
from andon.units import printable

TIMEOUT_SECONDS = 0.5
RETRY_SECONDS = 60.0
_MAX_ANSWERS = 1024
_MAX_WAITING = 64
_ANSWER_BYTES = 1 << 20
_NAME_CHARACTERS = 128
_LOG_NAMES = 4096  # one folder entry per container that the node has logs of

Sockets = Mapping[str, Sequence[str]]
"""By runtime, the sockets to ask for its containers; the first that knows one answers."""


class ContainerInfo(Struct, frozen=True):
    """What is known about a container; unless `final`, it should be looked up again."""

    names: RuntimeNames | None
    final: bool
    waited_seconds: float = 0.0


class _Reply(Struct, frozen=True):
    names: RuntimeNames | None
    until: float  # when to ask again for a container that was not found


class ContainerNames:
    """Caches names by container. Thread-safe."""

    def __init__(
        self,
        root: Path = Path("/"),
        sockets: Sockets | None = None,
        clock: Callable[[], float] = time.monotonic,
        engine_seconds: float = TIMEOUT_SECONDS,
    ) -> None:
        self._engine_seconds = engine_seconds
        self._sockets = usual_sockets(root) if sockets is None else sockets
        self._logs = root / "var/log/containers"
        self._clock = clock
        self._replies: dict[Container, _Reply] = {}
        self._pending: set[Container] = set()
        self._changed = threading.Condition()
        self._questions: Queue[Container] = Queue(_MAX_WAITING)
        self._thread: threading.Thread | None = None

    def look_up(self, container: Container, timeout_seconds: float = 0.0) -> ContainerInfo:
        """Returns the name, if known or answered within the timeout; the question stays queued."""
        with self._changed:
            reply = self._replies.get(container)
            if reply is not None and (reply.names is not None or self._clock() < reply.until):
                return ContainerInfo(reply.names, reply.names is not None)
            if container not in self._pending and not self._ask(container):
                return ContainerInfo(None, final=container.runtime in _SELF_NAMED)
            return self._wait(container, timeout_seconds)

    def _ask(self, container: Container) -> bool:
        """Queues the question, if there is an engine to answer it."""
        if not self._can_be_answered(container):
            self._remember(container, None)
            return False
        if self._thread is None:
            thread = threading.Thread(target=self._work, name="container names", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # no more threads are allowed: asked in a later round
                return False
            self._thread = thread
        try:
            self._questions.put_nowait(container)
        except Full:  # asked in a later round
            return False
        self._pending.add(container)
        return True

    def _wait(self, container: Container, timeout_seconds: float) -> ContainerInfo:
        began = time.monotonic()
        answered = self._changed.wait_for(
            lambda: container not in self._pending, max(0.0, timeout_seconds)
        )
        reply = self._replies.get(container) if answered else None
        names = reply.names if reply else None
        return ContainerInfo(names, names is not None, time.monotonic() - began)

    def _can_be_answered(self, container: Container) -> bool:
        if container.runtime in _SELF_NAMED:
            return False
        return any(map(may_ask, self._where(container))) or os.access(self._logs, os.R_OK)

    def _where(self, container: Container) -> Iterable[str]:
        if container.runtime == UNKNOWN:
            return [path for paths in self._sockets.values() for path in paths]
        return self._sockets.get(container.runtime, ())

    def _work(self) -> None:
        while True:
            container = self._questions.get()
            try:
                names = self._answer(container)
            except Exception:  # noqa: BLE001 - without a name the id is shown
                names = None
            with self._changed:
                self._remember(container, names)
                self._pending.discard(container)
                self._changed.notify_all()

    def _answer(self, container: Container) -> RuntimeNames | None:
        for path in filter(may_ask, self._where(container)):
            names = ask_engine(path, container.id, self._engine_seconds)
            if names is not None:
                return names
        return names_from_logs(self._logs, container.id)

    def _remember(self, container: Container, names: RuntimeNames | None) -> None:
        if len(self._replies) >= _MAX_ANSWERS:
            self._replies.clear()
        self._replies[container] = _Reply(names, self._clock() + RETRY_SECONDS)


_SELF_NAMED = frozenset({"lxc", "nspawn", "qemu", "apptainer", "singularity", "ecs"})


@functools.lru_cache(maxsize=8)
def shared_names(root: Path) -> ContainerNames:
    """Returns the cache of names that all tables of this process share."""
    return ContainerNames(root)


def usual_sockets(root: Path) -> Sockets:
    """Default sockets of the engines: the node's, then this user's own."""
    if not hasattr(os, "geteuid"):  # on Windows engines have pipes
        return {}
    top, mine = str(root).rstrip("/"), f"run/user/{os.geteuid()}"
    return {
        "docker": (f"{top}/run/docker.sock", f"{top}/{mine}/docker.sock"),
        "podman": (f"{top}/run/podman/podman.sock", f"{top}/{mine}/podman/podman.sock"),
    }


def may_ask(path: str) -> bool:
    """Whether the path is a socket that this user may use."""
    try:
        is_socket = stat.S_ISSOCK(Path(path).stat().st_mode)
    except OSError:
        return False
    return is_socket and os.access(path, os.R_OK | os.W_OK)


def ask_engine(
    path: str, container_id: str, timeout_seconds: float = TIMEOUT_SECONDS
) -> RuntimeNames | None:
    """Requests `GET /containers/<id>/json` of Docker or Podman; None on any failure."""
    import http.client
    import socket

    connection = http.client.HTTPConnection("localhost", timeout=timeout_seconds)
    try:
        connection.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.sock.settimeout(timeout_seconds)
        connection.sock.connect(path)
        connection.request("GET", f"/containers/{container_id}/json")
        response = connection.getresponse()
        return parse_engine(response.read(_ANSWER_BYTES)) if response.status == 200 else None
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def parse_engine(content: bytes) -> RuntimeNames | None:
    """Parses the name, and the labels that Kubernetes sets if it runs on Docker."""
    import json

    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    config = value.get("Config")
    labels = config.get("Labels") if isinstance(config, dict) else None
    known = labels if isinstance(labels, dict) else {}
    return RuntimeNames(
        name=_text(value.get("Name"), strip="/"),
        namespace=_text(known.get("io.kubernetes.pod.namespace")),
        pod=_text(known.get("io.kubernetes.pod.name")),
        container=_text(known.get("io.kubernetes.container.name")),
    )


def names_from_logs(folder: Path, container_id: str) -> RuntimeNames | None:
    """Reads names from log files, which the kubelet calls `<pod>_<namespace>_<container>-<id>.log`
    with every runtime."""
    ending = f"-{container_id}.log"
    try:
        with os.scandir(folder) as entries:
            for entry, _ in zip(entries, range(_LOG_NAMES), strict=False):
                if entry.name.endswith(ending):
                    return parse_log_name(entry.name.removesuffix(ending))
    except OSError:
        pass
    return None


def parse_log_name(stem: str) -> RuntimeNames | None:
    parts = stem.split("_")
    if len(parts) != 3 or not all(parts):
        return None
    pod, namespace, container = (_text(part) for part in parts)
    return RuntimeNames(None, namespace, pod, container)


def _text(value: Any, strip: str = "") -> str | None:
    if not isinstance(value, str):
        return None
    return printable(value.strip(strip) if strip else value)[:_NAME_CHARACTERS] or None
