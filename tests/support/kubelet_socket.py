"""A kubelet's pod-resources socket for tests: a server of grpcio with a list that tests change."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc

from andon.host.rules.pod_resources import PodHolder


def answer_of(holders: Iterable[PodHolder], resource: str = "vendor.example/gpu") -> bytes:
    """Returns the list as a kubelet writes it: with processors, memory and topologies between."""
    found = b""
    for one in holders:
        ids = b"".join(_field(2, name.encode()) for name in one.devices)
        topology = _field(3, _field(1, b"\x08\x01"))
        devices = _field(2, _field(1, resource.encode()) + ids + topology)
        numbers = b"\x18\x96\x01" + b"\x19" + bytes(8) + b"\x1d" + bytes(4)
        container = _field(1, one.container.encode()) + devices + numbers
        pod = _field(1, one.pod.encode()) + _field(2, one.namespace.encode())
        found += _field(1, pod + _field(3, container))
    return found


def _field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


class KubeletSocket:
    """Serves the list until it is closed; one that is opened again takes the same path."""

    def __init__(self, path: Path) -> None:
        self.path, self.asked = path, 0
        self.holders: list[PodHolder] = []
        self.raw: bytes | None = None
        self._server: grpc.Server | None = None
        self.open()

    def open(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._server = grpc.server(ThreadPoolExecutor(1))
        method = grpc.unary_unary_rpc_method_handler(self._list)
        handler = grpc.method_handlers_generic_handler("v1.PodResourcesLister", {"List": method})
        self._server.add_generic_rpc_handlers((handler,))
        self._server.add_insecure_port(f"unix://{self.path}")
        self._server.start()

    def close(self) -> None:
        assert self._server is not None
        self._server.stop(0).wait()
        self.path.unlink(missing_ok=True)

    def _list(self, request: bytes, context: object) -> bytes:
        self.asked += 1
        return answer_of(self.holders) if self.raw is None else self.raw
