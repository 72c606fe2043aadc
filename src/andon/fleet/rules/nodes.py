"""A hub's list of nodes: which may report, and what each reported last."""

from msgspec import Struct


class FleetNode(Struct, frozen=True):
    """A node that was added to a hub."""

    name: str
    token_hash: str
    added: float
    drained: bool = False
    heard: float | None = None
    """When its last heartbeat came, on the hub's clock."""
    sent: float | None = None
    """When it was sent, on the node's clock."""
    digest: bytes = b""
    """The small part of that heartbeat, which a hub reads."""

    @property
    def is_hub(self) -> bool:
        """Whether it is the machine of a hub, whose history is in the same database."""
        return self.token_hash == own_token(self.name)


def own_token(name: str) -> str:
    """Returns the placeholder for a token's hash for a hub's own machine, which has no token."""
    return f"hub {name}"


class Heartbeat(Struct, frozen=True):
    """One report of a node. Only the digest is parsed on arrival."""

    node: str
    session: str
    """Identifies a start of the agent, whose heartbeats are numbered from 1."""
    sequence: int
    at: float
    """When it came, on the hub's clock."""
    sent: float
    """When it was sent, on the node's clock."""
    digest: bytes
    snapshot: bytes = b""
    ticks: bytes = b""
    notices: bytes = b""
    """For people, if there are any: kept until a hub has sent them."""


class NamedToken(Struct, frozen=True):
    """A hub's token for people or programs, and its role."""

    name: str
    hash: str
    role: str
    added: float
