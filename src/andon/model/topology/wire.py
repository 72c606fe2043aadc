"""JSON of how devices are linked, and the places of a server's devices read back from it."""

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from andon.model.codec import Json, Name, read
from andon.model.device import Device, Snapshot
from andon.model.naming import device_labels
from andon.model.topology.links import LinkedGroup, all_links, linked_groups
from andon.model.topology.place import DevicePlace, place_to_json

TOPOLOGY = "andon.topology/1"


def boards_of(snapshot: Snapshot) -> list[Device]:
    """Partitions are where their boards are."""
    return [one.device for one in snapshot.devices if one.device.parent is None]


def topology_to_json(snapshot: Snapshot) -> dict[str, Any]:
    devices, labels = boards_of(snapshot), device_labels(snapshot.devices)
    links = all_links(devices)
    return {
        "schema": TOPOLOGY,
        "node": snapshot.node,
        "at": snapshot.at,
        "simulated": snapshot.simulated,
        "devices": [
            {
                "uuid": device.uuid,
                "label": labels[device.uuid],
                "pci": device.pci,
                **place_to_json(device.place),
            }
            for device in devices
        ],
        "links": [
            {"from": one, "to": other, "kind": str(link.kind), "lanes": link.lanes}
            for (one, other), link in links.items()
        ],
        "groups": [_group(group) for group in linked_groups(devices)],
    }


def with_places(snapshot: Snapshot, topology: Json) -> Snapshot:
    """Returns the devices with the places that andon.topology/1 gives; raises Wrong if it is not
    that."""
    listed = read(list[Json], topology.get("devices"))
    places = {read(_Named, one).uuid: read(DevicePlace, one) for one in listed}
    return replace(
        snapshot,
        devices=tuple(
            replace(one, device=replace(one.device, place=places[one.device.uuid]))
            if one.device.uuid in places
            else one
            for one in snapshot.devices
        ),
    )


class _Named(Struct, frozen=True):
    uuid: Name


def _group(group: LinkedGroup) -> dict[str, Any]:
    return {"kind": str(group.kind), "devices": list(group.uuids)}
