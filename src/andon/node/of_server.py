"""What the nodes in a server have in common."""

from typing import Self


class NodeOfServer:
    """A node that a server owns: its users neither open nor close it."""

    url: str | None = None

    def shared(self) -> Self:
        return self

    def close(self) -> None:
        """Does nothing: what opened the parts closes them."""
