"""Intel devices through the files of the i915 and xe kernel drivers."""

from andon.drivers.intel.card import IntelCard
from andon.drivers.shared.kernel import AwakeCard, CardFiles, KernelBackend
from andon.model.vendors import INTEL

__all__ = ["Intel"]


class Intel(KernelBackend):
    """Implements ports.Backend for i915 and xe."""

    name, vendor = INTEL.name, INTEL

    def board(self, place: CardFiles) -> AwakeCard:
        return IntelCard(place)
