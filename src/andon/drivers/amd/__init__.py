"""AMD devices through the files of the amdgpu kernel driver."""

import time
from collections.abc import Callable, Sequence

from andon.drivers.amd.card import AmdCard
from andon.drivers.amd.smi import Smi
from andon.drivers.shared import pci
from andon.drivers.shared.kernel import SLEEPING, AwakeCard, CardFiles, KernelBackend
from andon.drivers.shared.sysfs import Tree
from andon.model.device import Card, Reading, State
from andon.model.vendors import AMD

__all__ = ["Amd"]


class Amd(KernelBackend):
    """Implements ports.Backend for amdgpu."""

    name, vendor = AMD.name, AMD

    def __init__(
        self,
        root: str = "/",
        tree: Tree | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        library: bool | None = None,
    ) -> None:
        super().__init__(root, tree, clock, sleep)
        # AMD's library reads this machine only, not a tree of files that represents another.
        self._with_library = self._tree.root == "" if library is None else library
        self._smi = Smi(self._may_use_library)

    def board(self, place: CardFiles) -> AwakeCard:
        return AmdCard(place, self._smi)

    def read(self, card: Card, at: float, watched: bool) -> Sequence[Reading]:
        readings = super().read(card, at, watched)
        if any(reading.state is State.ASLEEP for reading in readings):
            self._smi.close()  # it could keep the card awake
        return readings

    def close(self) -> None:
        super().close()
        self._smi.close()

    def _may_use_library(self) -> bool:
        """Whether the library may be opened: only if the system suspends none of the cards,
        because it could wake them all.

        A screen does not count here: it can be turned off while the library is open.
        """
        return self._with_library and not any(
            self._could_sleep(self._tree.below(f"{pci.folder(address)}/power"))
            for address, _ in pci.bound(self._tree, self.vendor.drivers)
        )

    @staticmethod
    def _could_sleep(power: Tree) -> bool:
        return power.text("control").value == "auto" or (
            power.text("runtime_status").value in SLEEPING
        )
