"""Who notifies people of a node's alerts, its hub or itself: never both, and never nobody."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from andon.alerts.rules.handover import (
    AWAY_SECONDS,
    HUB,
    HUB_ROUTE,
    MOST_HANDED,
    MOST_HANDED_PARTIES,
    Duty,
    HandedNotice,
    handed,
    of_node,
    relayed,
    sendable,
    still_open,
    taken,
)
from andon.alerts.rules.outbox import MOST_OF_NODE, MOST_OPEN, Outbox, latest, node_of
from andon.alerts.rules.routes import Route
from andon.model.alert import Notice, NoticeKind
from andon.model.event import Party
from tests.support.invariants import check_outbox
from tests.support.notices import HOT
from tests.support.route_parts import MIDNIGHT, utc

FIRING, WORSE, RESOLVED = NoticeKind.FIRING, NoticeKind.WORSE, NoticeKind.RESOLVED
PHONE = Route("phone")
HUBS = (Route("mail"), Route("chat"))


def told(number: int, kind: NoticeKind = FIRING, alert: str = "thermal@GPU-1#1") -> Notice:
    return Notice(f"{alert}/{number}-{kind}", kind, replace(HOT, id=alert), MIDNIGHT, "n17")


@pytest.mark.parametrize(
    ("duty", "now", "is_hubs"),
    [
        (Duty(0.0), 0.0, True),
        (Duty(0.0), AWAY_SECONDS - 1, True),
        (Duty(0.0), AWAY_SECONDS, False),
        (Duty(0.0, notifies=False), 1.0, False),
        (Duty(0.0).ended(50.0, True), 100.0, True),
        (Duty(0.0).ended(50.0, None), 100.0, False),
        (Duty(0.0).ended(50.0, False), 51.0, False),
        (Duty(0.0).started(59.0), 69.0, True),
        (Duty(0.0).started(61.0), 61.0, False),
        (Duty(0.0).started(59.0).ended(69.0, None), 69.0, False),
    ],
)
def test_it_is_the_hubs_while_it_answers(duty: Duty, now: float, is_hubs: bool) -> None:
    assert duty.is_hubs(now) is is_hubs


def test_a_notice_waits_for_the_hub_and_is_then_the_hubs() -> None:
    box = Outbox().add([told(1)], (PHONE, HUB_ROUTE), MIDNIGHT, utc)
    assert sendable(box, box.ready("phone", MIDNIGHT), is_hubs=True) == ()
    (given_away,) = handed(box, is_hubs=True)
    assert not given_away.notified
    box = taken(box, [given_away], MIDNIGHT)
    assert box.deliveries == ()
    assert set(box.informed[HOT_ID]) == {"phone", HUB}, "either may have to send its end"


HOT_ID = "thermal@GPU-1#1"


def test_while_the_hub_is_away_the_node_sends_and_the_hub_only_notes_it() -> None:
    box = Outbox().add([told(1)], (PHONE, HUB_ROUTE), MIDNIGHT, utc)
    (own,) = sendable(box, box.ready("phone", MIDNIGHT), is_hubs=False)
    (under_way,) = handed(box, is_hubs=False)
    assert under_way.notified, "it may be on its way to someone now"
    box = taken(box, [under_way], MIDNIGHT)
    assert sendable(box, box.ready("phone", MIDNIGHT), is_hubs=True) == (own,), "it still sends it"
    at_hub, new = relayed(Outbox(), [of_node(under_way, "n17")], HUBS, MIDNIGHT, utc)
    assert at_hub.deliveries == ()
    assert len(new) == 1
    end = of_node(HandedNotice(told(2, RESOLVED)), "n17")
    at_hub, _ = relayed(at_hub, [end], HUBS, MIDNIGHT, utc)
    assert {one.notifier for one in at_hub.deliveries} == {"mail", "chat"}


def test_a_hub_believes_the_token_and_not_the_name_in_a_notice() -> None:
    found = of_node(HandedNotice(replace(told(1), node="n99")), "n17").notice
    assert (found.node, node_of(found.alert.id), node_of(HOT.id)) == ("n17", "n17", "")


def test_one_node_does_not_fill_the_outbox_of_a_hub() -> None:
    flood = [of_node(HandedNotice(told(n, alert=f"x@{n}#1")), "n17") for n in range(200)]
    box, _ = relayed(Outbox(), flood, HUBS, MIDNIGHT, utc)
    other = of_node(HandedNotice(told(1)), "n18")
    box, _ = relayed(box, [other], HUBS, MIDNIGHT, utc)
    nodes = Counter(one.notice.node for one in box.deliveries if one.notifier == "mail")
    assert nodes == {"n17": MOST_HANDED, "n18": 1}
    assert box.dropped == 200 - MOST_HANDED


def test_alerts_of_nodes_are_open_until_their_end() -> None:
    first = still_open((), [told(1), told(1, alert="b@GPU-2#1")])
    assert [one.id for one in still_open(first, [told(2, RESOLVED)])] == ["b@GPU-2#1"]


class World:
    """A node and the hubs that share a database, as their outboxes are after every step."""

    def __init__(self) -> None:
        self.now, self.duty = 0.0, Duty(0.0)
        self.node, self.hub = Outbox(), Outbox()
        self.news: list[HandedNotice] = []
        self.raised: Counter[str] = Counter()
        self.decided: list[str] = []
        self.sent: Counter[tuple[str, str]] = Counter()

    def step(self, what: str) -> None:
        getattr(self, what)()
        check_outbox(self.node)
        check_outbox(self.hub)

    def notice(self, alert: str = "a@1#1") -> None:
        number = self.raised[alert] = self.raised[alert] + 1
        kind = (FIRING, WORSE, RESOLVED)[(number - 1) % 3]
        episode = f"{alert}{(number - 1) // 3}"
        made = told(number, kind, episode)
        self.decided.append(made.id)
        self.node = self.node.add([made], (PHONE, HUB_ROUTE), MIDNIGHT, utc)

    def other_notice(self) -> None:
        self.notice("b@2#1")

    def later(self) -> None:
        self.now += 25.0

    def beat(self, answer: bool | None = True) -> None:
        self.duty = self.duty.started(self.now)
        parcel = handed(self.node, bool(self.duty.flying))
        self.node_sends()  # meanwhile
        if answer is not None:
            self.news += [of_node(one, "n17") for one in parcel]
            self.node = taken(self.node, parcel, MIDNIGHT)
        self.duty = self.duty.ended(self.now, answer)

    def beat_fails(self) -> None:
        self.beat(None)

    def node_sends(self) -> None:
        is_hubs = self.duty.is_hubs(self.now)
        found = sendable(self.node, self.node.ready("phone", MIDNIGHT), is_hubs)
        for one in found:
            self.sent["node", one.notice.id] += 1
        self.node = self.node.done({one.key for one in found}, MIDNIGHT)

    def node_restarts(self) -> None:
        self.duty = Duty(self.now)

    def hub_takes(self) -> None:
        """A hub that is killed before it forgets them takes them again."""
        self.hub, _ = relayed(self.hub, self.news, HUBS[:1], MIDNIGHT, utc)

    def hub_forgets(self) -> None:
        self.hub_takes()
        self.news = []

    def hub_sends(self) -> None:
        found = self.hub.ready("mail", MIDNIGHT)
        for one in found:
            self.sent["hub", one.notice.id.removeprefix("n17:")] += 1
        self.hub = self.hub.done({one.key for one in found}, MIDNIGHT)


STEPS = (
    "notice", "other_notice", "later", "beat", "beat_fails", "node_sends", "node_restarts",
    "hub_takes", "hub_forgets", "hub_sends",
)  # fmt: skip


@given(st.lists(st.sampled_from(STEPS), max_size=60))
def test_every_notice_is_sent_once_whatever_happens(steps: list[str]) -> None:
    world = World()
    for what in (*steps, "beat", "hub_forgets", "hub_sends", "node_sends"):
        world.step(what)
    told_of = Counter[str]()
    for (_, notice), count in world.sent.items():
        told_of[notice] += count
    assert told_of == Counter(world.decided)
    assert world.node.deliveries == world.hub.deliveries == ()


def test_alerts_of_one_node_do_not_displace_those_of_others() -> None:
    """Else nobody would be notified of the end of another node's alert."""
    flood = [of_node(HandedNotice(told(1, alert=f"x@{n}#1")), "n17").notice for n in range(2000)]
    other = of_node(HandedNotice(told(1)), "n18").notice
    found = [node_of(one.id) for one in still_open((), [other, *flood])]
    assert (found[0], len(found)) == ("n18", 1 + MOST_OF_NODE)
    own = {f"x@{n}#1": n for n in range(2000)}
    assert list(latest({"n18:x@1#1": 0, **own}).values()) == list(range(2000 - MOST_OPEN, 2000))
    kept = latest({"n18:x@1#1": 0, **{f"n17:{name}": n for name, n in own.items()}})
    assert list(kept)[:2] == ["n18:x@1#1", f"n17:x@{2000 - MOST_OF_NODE}#1"]


def test_a_notice_is_not_of_tomorrow_and_names_not_everyone() -> None:
    later = of_node(HandedNotice(replace(told(1), at=MIDNIGHT + 1e9)), "n17")
    box, _ = relayed(Outbox(), [later], HUBS, MIDNIGHT, utc)
    assert {one.notice.at for one in box.deliveries} == {MIDNIGHT}
    crowd = told(1)
    crowd = replace(
        crowd, alert=replace(crowd.alert, affected=(Party(1, command="x" * 999),) * 999)
    )
    (given_away,) = handed(Outbox().add([crowd], (HUB_ROUTE,), MIDNIGHT, utc), is_hubs=True)
    assert len(given_away.notice.alert.affected) == MOST_HANDED_PARTIES
