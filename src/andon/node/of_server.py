"""What the nodes in a server have in common."""

from typing import Self


class NodeOfServer:
    """Whoever asks it neither opens nor closes anything."""

    url: str | None = None

    def shared(self) -> Self:
        return self

    def close(self) -> None:
        """Does nothing: what opened the parts closes them."""
