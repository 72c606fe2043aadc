"""Which devices of a snapshot a command is about: those that are named, or that a mask shows."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from andon.model.device import Snapshot
from andon.model.naming import devices_named, with_labels

if TYPE_CHECKING:
    from andon.cli.show.render import Mask
    from andon.node.port import Node


def mask_of(snapshot: Snapshot, node: "Node", left_out: int = 0) -> "Mask":
    """The mask that decides what this process sees; it does not apply to a server's devices."""
    from andon.cli.show.render import Mask

    if node.url is not None:
        return Mask(left_out=left_out)
    from andon.sampling.rules.masks import visibility

    found = visibility([status.device for status in snapshot.devices], os.environ)
    return Mask(found.source, found.note, left_out, found.container)


def chosen_uuids(snapshot: Snapshot, wanted: Sequence[str]) -> set[str]:
    """The named devices; a board includes its partitions."""
    return {uuid for name in wanted for uuid in devices_named(name, snapshot.devices)}


def narrowed(snapshot: Snapshot, wanted: Sequence[str]) -> Snapshot:
    """The snapshot with the named devices; with all of them where none is named."""
    return only(snapshot, chosen_uuids(snapshot, wanted)) if wanted else snapshot


def only(snapshot: Snapshot, uuids: set[str]) -> Snapshot:
    """The snapshot with only these devices."""
    kept = tuple(s for s in with_labels(snapshot.devices) if s.device.uuid in uuids)
    return replace(snapshot, devices=kept)
