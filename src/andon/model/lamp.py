"""The lamp of a device: its colour, its rank and what lights it."""

from enum import StrEnum

from msgspec import Struct

from andon.model.device import State

NOT_URGENT = (0, 0)
"""The urgency of a device that needs nothing."""


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


class DeviceLamp(Struct, frozen=True):
    """One device on the board."""

    uuid: str
    index: int
    lamp: Lamp
    status: str  # one or two words: "heavy", "too hot"
    reason: str | None = None  # a sentence, if it is not fine
    affected_user: str | None = None  # the user or users whose work is affected
    alerts: tuple[str, ...] = ()  # ids of pending or firing alerts, worst first
    severity: int = 0  # 0 to 100, of what lights the lamp; 0 if nothing does
    rule: str | None = None  # the condition that lights the lamp
    handled: bool = False  # everything that lights it is acknowledged or silenced
    advice: str = ""  # what to do about what lights it

    @property
    def urgency(self) -> tuple[int, int]:
        """Greater is worse; a sleeping device is as calm as a healthy one, and handled alerts
        come last."""
        if self.status == State.ASLEEP.text:
            return NOT_URGENT
        return (0, self.severity) if self.handled else (self.lamp.rank, self.severity)

    @property
    def is_troubled(self) -> bool:
        """Whether the lamp asks a person to act."""
        return self.lamp in (Lamp.RED, Lamp.AMBER) and not self.handled
