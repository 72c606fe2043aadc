"""Intel devices through the files of the i915 and xe kernel drivers."""

from andon.backends.intel.board import IntelBoard
from andon.backends.kernel import Board, KernelBackend, Place

__all__ = ["Intel"]


class Intel(KernelBackend):
    """Implements ports.Backend for i915 and xe."""

    name = "intel"
    title = "Intel GPU"
    drivers = ("i915", "xe")
    hint = "if one is installed, load its driver: sudo modprobe xe, or i915 for older ones"

    def board(self, place: Place) -> Board:
        return IntelBoard(place)
