"""Intel devices through the files of the i915 and xe kernel drivers."""

from andon.backends.intel.card import IntelCard
from andon.backends.kernel import AwakeCard, CardFiles, KernelBackend

__all__ = ["Intel"]


class Intel(KernelBackend):
    """Implements ports.Backend for i915 and xe."""

    name = "intel"
    title = "Intel GPU"
    drivers = ("i915", "xe")
    hint = "if one is installed, load its driver: sudo modprobe xe, or i915 for older ones"

    def board(self, place: CardFiles) -> AwakeCard:
        return IntelCard(place)
