"""How much a run got done: items by device, and steps by time."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from andon.model.run.record import ItemState, RunDevice, RunItem, RunLogged


class DeviceItems(Struct, frozen=True):
    """The items that one device worked through."""

    done: int = 0
    failed: int = 0
    retried: int = 0
    mean_seconds: float | None = None  # of those that succeeded
    per_second: float | None = None  # over the whole run


def items_by_device(
    items: Iterable[RunItem], devices: Sequence[RunDevice], duration: float | None
) -> dict[str, DeviceItems]:
    """Counts items by uuid. An item that names no device is the only device's, and of none among
    several."""
    labels = {device.label: device.uuid for device in devices}
    only = devices[0].uuid if len(devices) == 1 else None
    found: dict[str, list[RunItem]] = {}
    for item in items:
        uuid = labels.get(item.device, only) if item.device is not None else only
        if uuid is not None and item.state is not ItemState.START:
            found.setdefault(uuid, []).append(item)
    return {uuid: _counted(listed, duration) for uuid, listed in found.items()}


def _counted(items: Sequence[RunItem], duration: float | None) -> DeviceItems:
    done = [item for item in items if item.state is ItemState.OK]
    times = [item.runtime_seconds for item in done if item.runtime_seconds is not None]
    return DeviceItems(
        done=len(done),
        failed=sum(item.state is ItemState.FAILED for item in items),
        retried=sum(item.state is ItemState.RETRY for item in items),
        mean_seconds=sum(times) / len(times) if times else None,
        per_second=len(done) / duration if duration else None,
    )


def steps_per_second(logged: Sequence[RunLogged]) -> float | None:
    """Returns the rate between the first and the last logged step; None if steps or time did not
    advance."""
    known = [(line.at, line.step) for line in logged if line.step is not None]
    if len(known) < 2:
        return None
    (began, first), (ended, last) = known[0], known[-1]
    if ended <= began or last <= first:
        return None
    return (last - first) / (ended - began)
