"""Which pod has which device, also where no process runs: the kubelet's own list, by its socket."""

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from andon.errors import Unavailable
from andon.failures.retrying import Retrying, RetryTexts
from andon.failures.rules.backoff import BackOff
from andon.host.rules.pod_resources import PodHolder, holders_of, listed_containers, with_pods

if TYPE_CHECKING:
    from andon.model.device import Device, DeviceStatus

log = logging.getLogger("andon.pods")

KUBELET_SOCKET: Final = "var/lib/kubelet/pod-resources/kubelet.sock"
"""Below the root of the file system."""
METHOD: Final = "/v1.PodResourcesLister/List"
EVERY_SECONDS: Final = 5.0
TIMEOUT_SECONDS: Final = 3.0
TEXTS: Final = RetryTexts(
    lambda reason: f"pods cannot be named by the kubelet: {reason}",
    lambda lasted: f"the kubelet names pods again after {lasted}",
)

Listen = Callable[[Sequence[PodHolder]], None]


class PodDevices:
    """Asks the kubelet every five seconds, in a thread; who asks it gets the last answer at once.
    A kubelet that restarts is asked again: meanwhile nobody is named."""

    def __init__(self, path: Path, every_seconds: float = EVERY_SECONDS) -> None:
        self._path, self._every = path, every_seconds
        self._channel: Any = None
        self._found: tuple[PodHolder, ...] = ()
        self._marked: tuple[object, list[Device]] = (None, [])
        self._places = dict[str, tuple[str, ...]]()
        self._listeners = list[Listen]()
        self._over = threading.Event()
        back_off = BackOff(every_seconds, 2 * every_seconds, at_once=0)
        self._retrying = Retrying(log.warning, TEXTS, _translated, back_off)
        self._thread = threading.Thread(target=self._run, name="pods", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def listen(self, listener: Listen) -> None:
        """Calls it with every answer of the kubelet, in the thread that asks."""
        self._listeners.append(listener)

    def marked(self, statuses: "tuple[DeviceStatus, ...]") -> "tuple[DeviceStatus, ...]":
        """Adds who has each device; the sampler calls this for every sample."""
        if not (found := self._found):
            return statuses
        devices = [one.device for one in statuses]
        if self._marked[0] is not found or self._marked[1] != devices:
            held = holders_of(devices, found)
            self._places = {uuid: tuple(p.place for p in pods) for uuid, pods in held.items()}
            self._marked = found, devices
        return with_pods(statuses, self._places)

    def close(self) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(TIMEOUT_SECONDS)

    def _run(self) -> None:
        while not self._over.is_set():
            if self._retrying.attempt(self._look) is None:
                self._retrying.succeeded()
                self._over.wait(self._every)
            else:
                self._found = ()
                self._forget()
                self._retrying.pause(self._over)
        self._forget()

    def _look(self) -> None:
        import grpc

        if self._channel is None:
            self._channel = grpc.insecure_channel(f"unix://{self._path}")
        ask = self._channel.unary_unary(METHOD)
        try:
            found = listed_containers(ask(b"", timeout=TIMEOUT_SECONDS))
        except grpc.RpcError as exc:
            said = exc.details() if isinstance(exc, grpc.Call) else str(exc)
            raise Unavailable(f"{self._path}: {said}"[:300]) from exc
        except ValueError as exc:
            raise Unavailable(f"{self._path} answers something else: {exc}") from exc
        if tuple(found) != self._found:
            self._found = tuple(found)
        for listener in self._listeners:
            listener(self._found)

    def _forget(self) -> None:
        if self._channel is not None:
            with suppress(Exception):
                self._channel.close()
            self._channel = None


def can_ask_kubelet(path: Path) -> bool:
    """Whether there is a kubelet here, and what is needed to ask it (the extra `k8s`)."""
    from importlib.util import find_spec

    return path.parent.is_dir() and find_spec("grpc") is not None


def _translated(exc: Exception) -> Unavailable:
    return exc if isinstance(exc, Unavailable) else Unavailable(f"{exc!r}"[:300])
