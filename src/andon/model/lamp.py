"""The lamp of a device: its colour and its rank."""

from enum import StrEnum


class Lamp(StrEnum):
    """The colour of a lamp, as seen from across the room."""

    GREEN = "green"  # fine
    AMBER = "amber"  # needs attention
    RED = "red"  # needs help now
    GREY = "grey"  # unknown

    @property
    def rank(self) -> int:
        """Greater is more urgent."""
        return ("green", "grey", "amber", "red").index(self.value)
