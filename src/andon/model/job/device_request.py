"""A request for devices; separate from leases, because `submit` must import little."""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from andon.model.codec import Names, Whole

MOST_PRIORITY = 1000
"""In the queue; the least is its negative."""
MOST_GPUS = 1024
Gpus = Annotated[int, Meta(ge=1, le=MOST_GPUS)]


class PlacementOrder(StrEnum):
    """Whether to take the emptiest devices first, or the fullest that suffice."""

    SPREAD = "spread"
    PACK = "pack"


class DeviceRequest(Struct, frozen=True):
    """A request for devices, as typed."""

    least: Gpus = 1
    most: Gpus = 1
    memory_bytes: Whole | None = None
    shared: bool = False
    models: Names = ()
    labels: Names = ()
    devices: Names = ()
    exclude: Names = ()
    prefer: Names = ()
    layout: PlacementOrder = PlacementOrder.SPREAD
    balanced: bool = True
    even_if_used: bool = False
    priority: Annotated[int, Meta(ge=-MOST_PRIORITY, le=MOST_PRIORITY)] = 0
    every: bool = False  # all eligible devices, however many and however different

    @property
    def is_plain(self) -> bool:
        """Whether any device will do, so that every machine with a device can meet the request."""
        wishes = (self.devices, self.exclude, self.models, self.labels, self.prefer)
        return self.least <= 1 and self.memory_bytes is None and not any(wishes)
