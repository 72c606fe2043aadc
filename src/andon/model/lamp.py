"""The lamp of a device: its colour and its rank."""

from enum import StrEnum


class Lamp(StrEnum):
    """The colour of a lamp, as seen from across the room."""

    GREEN = "green"  # fine
    RING = "ring"  # no one has to act now: an alert may begin, is about to end, or is handled
    AMBER = "amber"  # needs attention
    RED = "red"  # needs help now
    GREY = "grey"  # unknown

    @property
    def rank(self) -> int:
        """Greater is more urgent."""
        return ("green", "ring", "grey", "amber", "red").index(self.value)
