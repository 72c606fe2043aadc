"""Parses the kubelet's list of which container got which devices: PodResources of version 1.

Its few fields are read by their numbers; unknown fields are skipped.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from andon.model.device import Device, DeviceStatus
from andon.units import printable

MOST_NAME = 253
_POD = "k8s:"


class PodHolder(Struct, frozen=True):
    """A container of a pod, and the devices that the kubelet gave to it."""

    namespace: str
    pod: str
    container: str
    devices: tuple[str, ...]
    """As the device plugin calls them: uuids, or PCI addresses."""

    @property
    def place(self) -> str:
        return f"{self.namespace}/{self.pod}/{self.container}"


def listed_containers(answer: bytes) -> list[PodHolder]:
    """Returns the containers that have devices; ValueError for anything but such a list."""
    found = list[PodHolder]()
    for pod in _parts(answer, 1):
        name, namespace = _text(pod, 1), _text(pod, 2)
        for container in _parts(pod, 3):
            ids = [_plain(one) for given in _parts(container, 2) for one in _parts(given, 2)]
            if ids:
                found.append(PodHolder(namespace, name, _text(container, 1), tuple(ids)))
    return found


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Yields the number and content of each field that is text or a message."""
    at = 0
    while at < len(message):
        key, at = _number(message, at)
        if key & 7 == 0:
            at = _number(message, at)[1]
        elif key & 7 in (1, 5):
            at += 8 if key & 7 == 1 else 4
        elif key & 7 == 2:
            size, at = _number(message, at)
            if at + size > len(message):
                raise ValueError("it is cut")
            yield key >> 3, message[at : at + size]
            at += size
        else:
            raise ValueError(f"a field is of kind {key & 7}")


def _number(message: bytes, at: int) -> tuple[int, int]:
    """Returns the number that begins here, seven bits in a byte, and where it ends."""
    value = 0
    for place in range(10):
        if at >= len(message):
            break
        byte, at = message[at], at + 1
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value, at
    raise ValueError("a number is cut")


def _parts(message: bytes, wanted: int) -> Iterator[bytes]:
    return (content for number, content in _fields(message) if number == wanted)


def _text(message: bytes, wanted: int) -> str:
    return _plain(next(_parts(message, wanted), b""))


def _plain(content: bytes) -> str:
    return printable(content.decode("utf-8", "replace"))[:MOST_NAME]


def holders_of(
    devices: Iterable[Device], containers: Iterable[PodHolder]
) -> dict[str, tuple[PodHolder, ...]]:
    """Returns who has each device, by uuid. Plugins that share a device number its parts:
    `GPU-5f…::3`."""
    by_id = dict[str, list[PodHolder]]()
    for one in containers:
        for name in {name.partition("::")[0].lower() for name in one.devices}:
            by_id.setdefault(name, []).append(one)
    found = dict[str, tuple[PodHolder, ...]]()
    for device in devices:
        names = {device.uuid.lower(), (device.pci or device.uuid).lower()}
        if held := [one for name in names for one in by_id.get(name, ())]:
            found[device.uuid] = tuple(dict.fromkeys(held))
    return found


def with_pods(
    statuses: Sequence[DeviceStatus], places: Mapping[str, tuple[str, ...]]
) -> tuple[DeviceStatus, ...]:
    """Adds the pod that has each device. If only one pod has it, the pod of a process without a
    name gets that one's."""
    return tuple([_with_pods(one, places.get(one.device.uuid, ())) for one in statuses])


def _with_pods(status: DeviceStatus, places: tuple[str, ...]) -> DeviceStatus:
    if not places:
        return status
    processes = status.processes
    if len(places) == 1:
        processes = tuple(
            replace(one, container=f"{_POD}{places[0]}") if _is_unnamed(one.container) else one
            for one in processes
        )
    return replace(status, pods=places, processes=processes)


def _is_unnamed(container: str | None) -> bool:
    """Whether the container's pod is known only by its uid."""
    return container is not None and container.startswith(_POD) and container.count("/") < 2
