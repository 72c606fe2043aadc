"""A request for devices; separate from leases, because `submit` must import little."""

from enum import StrEnum

from msgspec import Struct

MOST_PRIORITY = 1000
"""In the queue; the least is its negative."""


class PlacementOrder(StrEnum):
    """Whether to take the emptiest devices first, or the fullest that suffice."""

    SPREAD = "spread"
    PACK = "pack"


class DeviceRequest(Struct, frozen=True):
    """A request for devices, as typed."""

    least: int = 1
    most: int = 1
    memory_bytes: int | None = None
    shared: bool = False
    models: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    prefer: tuple[str, ...] = ()
    layout: PlacementOrder = PlacementOrder.SPREAD
    balanced: bool = True
    even_if_used: bool = False
    priority: int = 0
    every: bool = False  # all eligible devices, however many and however different

    @property
    def is_plain(self) -> bool:
        """Whether any device will do: every machine with one can meet it some time."""
        wishes = (self.devices, self.exclude, self.models, self.labels, self.prefer)
        return self.least <= 1 and self.memory_bytes is None and not any(wishes)
