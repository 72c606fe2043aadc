"""Which pod has which device, also an unused one: the kubelet's own list, from its socket."""

import logging
import socket
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from andon.errors import Unavailable
from andon.failures.retrying import Retrying, RetryTexts
from andon.failures.rules.backoff import BackOff
from andon.host.rules.pod_resources import PodHolder, holders_of, listed_containers, with_pods
from andon.host.rules.unary_call import call_of, message_in
from andon.model.device import Device, DeviceStatus

log = logging.getLogger("andon.pods")

KUBELET_SOCKET: Final = "var/lib/kubelet/pod-resources/kubelet.sock"
"""Below the root of the file system."""
CALL: Final = call_of("/v1.PodResourcesLister/List")
LOGS: Final = "var/log/containers"
"""Has an entry for every container of the node: it changes when one begins."""
EVERY_SECONDS, CHECK_SECONDS = 15.0, 2.0
"""How often the kubelet is asked, and whether a container has begun since."""
TIMEOUT_SECONDS: Final = 3.0
MOST_BYTES, PIECE_BYTES = 4 << 20, 1 << 16
TEXTS: Final = RetryTexts(
    lambda reason: f"pods cannot be named by the kubelet: {reason}",
    lambda lasted: f"the kubelet names pods again after {lasted}",
)

Listen = Callable[[Sequence[PodHolder]], None]


class PodDevices:
    """Reads the kubelet's list every 15 seconds, and when a container begins, in a thread; callers
    get the last list at once. No pod is named while the kubelet does not answer."""

    def __init__(
        self, root: Path, every_seconds: float = EVERY_SECONDS, check_seconds: float = CHECK_SECONDS
    ) -> None:
        self._path, self._logs = root / KUBELET_SOCKET, root / LOGS
        self._every, self._check_seconds = every_seconds, check_seconds
        self._answer, self._found = b"", tuple[PodHolder, ...]()
        self._marked: tuple[object, list[Device]] = (None, [])
        self._places = dict[str, tuple[str, ...]]()
        self._listeners = list[Listen]()
        self._over = threading.Event()
        back_off = BackOff(every_seconds, every_seconds, at_once=0)
        self._retrying = Retrying(log.warning, TEXTS, _translated, back_off)
        self._thread = threading.Thread(target=self._run, name="pods", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def listen(self, listener: Listen) -> None:
        """Calls the listener with every answer of the kubelet, in the reading thread."""
        self._listeners.append(listener)

    def marked(self, statuses: tuple[DeviceStatus, ...]) -> tuple[DeviceStatus, ...]:
        """Adds the pod that has each device; the sampler calls this for every sample."""
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
            began = self._last_start()
            if self._retrying.attempt(self._ask) is None:
                self._retrying.succeeded()
            else:
                self._answer, self._found = b"", ()
            due = time.monotonic() + self._every
            while time.monotonic() < due and began == self._last_start():
                if self._over.wait(min(self._check_seconds, self._every)):
                    return

    def _last_start(self) -> float:
        """Returns when the last container began here, as far as can be seen."""
        try:
            return self._logs.stat().st_mtime
        except OSError:
            return 0.0

    def _ask(self) -> None:
        try:
            answer = self._called()
            if answer != self._answer:
                self._answer, self._found = answer, tuple(listed_containers(answer))
        except OSError as exc:
            raise Unavailable(f"{self._path}: {exc.strerror or exc}"[:300]) from exc
        except ValueError as exc:
            raise Unavailable(f"{self._path} answers something else: {exc}") from exc
        for listener in self._listeners:
            listener(self._found)

    def _called(self) -> bytes:
        deadline, received = time.monotonic() + TIMEOUT_SECONDS, bytearray()
        with socket.socket(socket.AF_UNIX) as kubelet:
            kubelet.settimeout(TIMEOUT_SECONDS)
            kubelet.connect(str(self._path))
            kubelet.sendall(CALL)
            while (message := message_in(received)) is None:
                kubelet.settimeout(max(0.001, deadline - time.monotonic()))
                piece = kubelet.recv(PIECE_BYTES)
                if not piece or len(received) > MOST_BYTES:
                    raise ValueError("there is no list in it")
                received += piece
        return message


def can_ask_kubelet(root: Path) -> bool:
    """Whether this machine has a kubelet."""
    return (root / KUBELET_SOCKET).parent.is_dir()


def _translated(exc: Exception) -> Unavailable:
    return exc if isinstance(exc, Unavailable) else Unavailable(f"{exc!r}"[:300])
