"""A backend for a device that does not exist: one card, of which only the load is known."""

from collections.abc import Mapping, Sequence

from andon.model.device import SAMPLE_VALUES, Card, Device, Reading, Sample

BEADS = "an abacus has beads, and nothing else to read"


class Abacus:
    """Implements andon.ports.Backend."""

    name = "abacus"

    def __init__(self, root: str = "/") -> None:
        self.root = root

    def glance(self) -> Sequence[Card]:
        return [Card("abacus-0", 0, name="Abacus")]

    def open(self) -> Sequence[Card]:
        return self.glance()

    def describe(self, card: Card) -> Sequence[Device]:
        return [Device("ABACUS-0", card.index, self.name, "Abacus")]

    def read(self, card: Card, at: float, watched: bool) -> Sequence[Reading]:
        missing = {name: BEADS for name in SAMPLE_VALUES if name != "utilization_percent"}
        return [Reading("ABACUS-0", Sample(at, utilization_percent=42), missing)]

    def versions(self) -> Mapping[str, str]:
        return {"abacus": "1.2"}

    def close(self) -> None:
        """Nothing to release."""
