"""The kept PrometheusExporter: serves this process's own samples to Prometheus."""

import threading
import time
import weakref
from collections.abc import Callable
from typing import Protocol, Self

from andon.api import watch as library
from andon.api.compat.monitor import GPUMonitor
from andon.errors import Conflict, Invalid
from andon.exporter.exposition import Exposition
from andon.exporter.scrape import FIRST_SECONDS, scraped
from andon.exporter.server import MetricsServer
from andon.exporter.spreads import Service
from andon.model.device import Snapshot
from andon.node.watched.live import WatchedLive


class HasSnapshots(Protocol):
    """Anything that returns snapshots of a node: the test builder, or a program's own."""

    def snapshot(self, at: float) -> Snapshot: ...


class PrometheusExporter:
    """`PrometheusExporter().with_port(9000).register_gpu_metrics(monitor).start()`.

    Listens on loopback only. `render()` returns the text, for programs that have their own server.
    Prefix and port default to the settings.
    """

    def __init__(self, prefix: str | None = None, port: int | None = None) -> None:
        settings = library.shared().settings
        self._exposition = Exposition(settings.exporter_prefix if prefix is None else prefix)
        self._port = settings.exporter_port if port is None else port
        self._source: Callable[[], Snapshot] | None = None
        self._shared = False
        self._live: WatchedLive | None = None
        self._server: MetricsServer | None = None
        self._lock = threading.Lock()
        _exporters.add(self)

    def with_prefix(self, prefix: str) -> Self:
        self._exposition = Exposition(prefix)
        return self

    def with_port(self, port: int) -> Self:
        """0 takes any free port; `port` says which."""
        self._port = port
        return self

    @property
    def port(self) -> int:
        """The port in use, or the one that will be requested."""
        return self._server.port if self._server else self._port

    def register_gpu_metrics(self, monitor: GPUMonitor | HasSnapshots) -> Self:
        """Set whose devices are exported."""
        if isinstance(monitor, GPUMonitor):
            self._source, self._shared = lambda: monitor._snapshot(use_cache=True), True
        elif hasattr(monitor, "snapshot"):
            self._source, self._shared = lambda: monitor.snapshot(time.time()), False
        else:
            raise Invalid("not a GPU monitor", hint="register_gpu_metrics(get_gpu_monitor())")
        return self

    def render(self) -> str:
        """The text now: of the running session's last snapshot, else of a new one."""
        return self._text(None)

    def start(self) -> Self:
        """Serve until `stop`; Conflict if the port is taken or the exporter is already running."""
        with self._lock:
            if self._server is not None:
                raise Conflict("this exporter is already running", hint="stop() it first")
            self._registered()
            server = MetricsServer("127.0.0.1", self._port)
            try:
                if self._shared:
                    shared = library.shared()
                    self._live = WatchedLive(shared, shared.settings.interval_seconds)
            except BaseException:
                server.server_close()  # whoever keeps the error would keep the port
                raise
            self._server = server
            server.start(self._text, self._dropped)
        return self

    def stop(self) -> None:
        """Stop serving and free the port. May be called twice."""
        with self._lock:
            server, self._server = self._server, None
            live, self._live = self._live, None
        if server is not None:
            server.stop()
        if live is not None:
            live.close()

    def _registered(self) -> Callable[[], Snapshot]:
        if self._source is None:
            hint = "call register_gpu_metrics(get_gpu_monitor()) first"
            raise Invalid("there is nothing to export", hint=hint)
        return self._source

    def _text(self, service: Service | None) -> str:
        if (live := self._live) is not None:
            live.wait_for_first(FIRST_SECONDS)
            return scraped(live, self._exposition, service)
        snapshot = self._registered()()
        costs = library.shared().costs() if self._shared else None
        return self._exposition.render(snapshot, costs, time.time(), service)

    def _dropped(self) -> int:
        return self._live.dropped if self._live else 0

    def _reset_after_fork(self) -> None:
        """Forgets threads and port in a forked child: they are the parent's."""
        server, self._server, self._live = self._server, None, None
        self._lock = threading.Lock()
        if server is not None:
            server.server_close()


_exporters: weakref.WeakSet[PrometheusExporter] = weakref.WeakSet()


def _in_child() -> None:
    for exporter in list(_exporters):
        exporter._reset_after_fork()


library.after_fork(_in_child)
