"""AMD devices through the files of the amdgpu kernel driver."""

from andon.backends.amd.board import AmdBoard
from andon.backends.kernel import Board, KernelBackend, Place

__all__ = ["Amd"]


class Amd(KernelBackend):
    """Implements ports.Backend for amdgpu."""

    name = "amd"
    title = "AMD GPU"
    drivers = ("amdgpu",)
    hint = "if one is installed, load its driver: sudo modprobe amdgpu"

    def board(self, place: Place) -> Board:
        return AmdBoard(place)
