"""Who notifies people about a node that reports to a hub: the hub while it answers, else the node.

A notice waits in the node's outbox for its own notifiers and, under the name `HUB`, for the hub. A
heartbeat carries what waits for the hub. What the hub takes is the hub's: it is then no longer sent
here. What the node may have sent itself is marked as notified: the hub notes it and sends nothing.
So both sides know of every notice, and one of them sends it.
"""

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct, field
from msgspec.structs import replace

from andon.alerts.rules.outbox import NONE_ACCEPTED, Delivery, Outbox, latest
from andon.alerts.rules.past import trimmed
from andon.alerts.rules.routes import Route
from andon.model.alert import Alert, Notice, NoticeKind
from andon.settings.moments import Offset

HUB = "@hub"
"""The hub's name in the outbox; no notifier can have it."""
HUB_ROUTE = Route(HUB)
AWAY_SECONDS = 60.0
MOST_HANDED = 50
"""Notices in a heartbeat, and of one node in a hub's outbox: it does not displace others."""


MOST_HANDED_PARTIES = 100
"""In a notice: a hub takes only so many values in a heartbeat."""


class HandedNotice(Struct, frozen=True):
    """A notice for the hub; `notified`: whether the node notifies people of it."""

    notice: Notice
    notified: bool = field(default=False, name="told")


HandedNotices = Annotated[tuple[HandedNotice, ...], Meta(max_length=MOST_HANDED)]


class Duty(Struct, frozen=True):
    """Whether the hub or the node notifies people. Times are on the steady clock."""

    answered: float
    """When the hub last answered, or the node started."""
    notifies: bool = True
    """Whether the hub reports that it can notify anyone."""
    flying: bool | None = None
    """Who notified when the current heartbeat began: that must not change until it ends."""

    def is_hubs(self, now: float) -> bool:
        if self.flying is not None:
            return self.flying
        return self.notifies and now - self.answered < AWAY_SECONDS

    def started(self, now: float) -> "Duty":
        """Returns the duty while a heartbeat is under way."""
        return replace(self, flying=replace(self, flying=None).is_hubs(now))

    def ended(self, now: float, notifies: bool | None) -> "Duty":
        """Returns the duty after a heartbeat: `notifies` is the hub's answer, None if it did not
        answer."""
        return replace(self, flying=None) if notifies is None else Duty(now, notifies)


def handed(box: Outbox, is_hubs: bool) -> tuple[HandedNotice, ...]:
    """Returns the notices for the next heartbeat, the oldest first."""
    waiting = [one.notice for one in box.deliveries if one.notifier == HUB][:MOST_HANDED]
    waiting = [replace(one, alert=trimmed(one.alert, MOST_HANDED_PARTIES)) for one in waiting]
    own = {one.notice.id for one in box.deliveries if one.notifier != HUB}
    return tuple(
        HandedNotice(one, _is_accepted(box, one) or (not is_hubs and one.id in own))
        for one in waiting
    )


def taken(box: Outbox, by_hub: Sequence[HandedNotice], at: float) -> Outbox:
    """Returns the outbox without what the hub took over, unless the node may have sent it."""
    notified = {one.notice.id: one.notified for one in by_hub}
    return box.done(
        {
            one.key
            for one in box.deliveries
            if one.notice.id in notified and (one.notifier == HUB or not notified[one.notice.id])
        },
        at,
    )


def sendable(box: Outbox, ready: Sequence[Delivery], is_hubs: bool) -> tuple[Delivery, ...]:
    """Returns what the node itself sends now: everything while the hub is away, else only what the
    hub leaves to it."""
    waiting = {one.notice.id for one in box.deliveries if one.notifier == HUB}
    return tuple(one for one in ready if not is_hubs or one.notice.id not in waiting)


# On the hub.


def of_node(one: HandedNotice, node: str) -> HandedNotice:
    """Returns a notice under the name of the node whose token it came with. Its ids begin with
    that name: two machines may have alerts of the same id."""
    notice = one.notice
    alert = replace(notice.alert, id=f"{node}:{notice.alert.id}"[:512])
    about = replace(notice, id=f"{node}:{notice.id}"[:512], alert=alert, node=node)
    return replace(one, notice=about)


def relayed(
    box: Outbox, given: Sequence[HandedNotice], routes: Sequence[Route], at: float, offset: Offset
) -> tuple[Outbox, list[Notice]]:
    """Returns the outbox with the notices of a node, and those that are new. A repeated one
    changes nothing; one that its node sent is only noted."""
    known = {one.notice.id for one in box.deliveries}
    new = list[Notice]()
    for one in given:
        notice = replace(one.notice, at=min(one.notice.at, at))
        if notice.id in known or _is_accepted(box, notice):
            continue
        if _waiting(box, notice.node) >= MOST_HANDED:
            box = replace(box, dropped=box.dropped + 1)
            continue
        box = box.add([notice], routes, at, offset)
        if one.notified:
            box = box.done({e.key for e in box.deliveries if e.notice.id == notice.id}, at)
        new.append(notice)
    return box, new


def still_open(known: Sequence[Alert], new: Sequence[Notice]) -> tuple[Alert, ...]:
    """Returns the alerts of nodes that are still open, for notifiers that repeat them."""
    found = {alert.id: alert for alert in known}
    for notice in new:
        found.pop(notice.alert.id, None)
        if notice.kind is not NoticeKind.RESOLVED:
            found[notice.alert.id] = notice.alert
    return tuple(latest(found).values())


def _is_accepted(box: Outbox, notice: Notice) -> bool:
    return notice.id in box.accepted.get(notice.alert.id, NONE_ACCEPTED).latest


def _waiting(box: Outbox, node: str) -> int:
    return len({one.notice.id for one in box.deliveries if one.notice.node == node})
