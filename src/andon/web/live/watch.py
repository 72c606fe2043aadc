"""The protocol of what publishes changes of one kind to the clients that subscribed to it."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Protocol

from andon.access.roles import Sight
from andon.model.wire import dumps
from andon.node.seen.node import SeenNode
from andon.node.seen.texts import sendable
from andon.web.bindings.live_server import Prepared

Emit = Callable[[str, Prepared, str, Sight], Awaitable[None]]
"""An event, its text, what was subscribed to, and who sees it so."""
Wants = Mapping[str, Collection[SeenNode]]
"""The subscriptions, each with the node as its callers see it."""


def prepared(value: object) -> Prepared:
    """Returns the text of an event."""
    return Prepared(sendable(dumps(value)))


class Watch(Protocol):
    """Reads nothing while no client is subscribed."""

    events: str
    """What can be subscribed to, in words: its name comes first."""

    def takes(self, what: str) -> bool:
        """Whether this can be subscribed to here."""
        return what == self.events

    async def first(self, node: SeenNode) -> tuple[str, Prepared] | None:
        """Returns the event for who has just subscribed, unless the page reads that itself."""
        return None

    async def publish(self, wants: Wants, emit: Emit) -> None:
        """Publishes one round, as each caller sees it."""

    def forget(self) -> None:
        """Forgets what was sent, because no client is subscribed any more."""
