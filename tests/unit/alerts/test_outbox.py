"""What is still to be told: once each, nothing forgotten, all of it bounded."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from andon.alerts.rules.outbox import MOST_AGE_SECONDS, MOST_DELIVERIES, Outbox
from andon.alerts.rules.routes import Route
from andon.model.alert import Level, Notice, NoticeKind
from andon.settings.moments import QuietHours
from tests.support.invariants import check_outbox
from tests.support.route_parts import HOT, HOUR, MIDNIGHT, utc

FIRING, RESOLVED = NoticeKind.FIRING, NoticeKind.RESOLVED
WORSE, REMINDER = NoticeKind.WORSE, NoticeKind.REMINDER
PHONE, MAIL = Route("phone"), Route("mail")
ASLEEP = Route("phone", quiet=QuietHours(22 * 60, 7 * 60))
NIGHT, MORNING = MIDNIGHT + 2 * HOUR, MIDNIGHT + 7 * HOUR


def told(number: str, kind: NoticeKind = FIRING, at: float = MIDNIGHT, alert: str = "a") -> Notice:
    return Notice(number, kind, replace(HOT, id=alert), at)


def box(*notices: Notice, routes: tuple[Route, ...] = (PHONE,), at: float = MIDNIGHT) -> Outbox:
    found = Outbox().add(notices, routes, at, utc)
    check_outbox(found)
    return found


def ids(found: Outbox, name: str = "phone", at: float = MIDNIGHT) -> list[str]:
    return [delivery.notice.id for delivery in found.ready(name, at)]


def test_each_notifier_has_a_delivery_of_its_own() -> None:
    found = box(told("1"), routes=(PHONE, MAIL))
    found = found.done({found.deliveries[0].key}, MIDNIGHT)
    assert ids(found) == []
    assert ids(found, "mail") == ["1"]


def test_a_notice_that_comes_twice_is_told_once() -> None:
    assert ids(box(told("1"), told("1"))) == ["1"]


def test_who_was_not_told_of_the_trouble_is_not_told_of_its_end() -> None:
    critical = Route("phone", level=Level.CRITICAL)
    assert box(told("1"), told("2", RESOLVED), routes=(critical,)).deliveries == ()


def test_who_was_told_hears_of_the_end_though_the_owner_is_gone_by_then() -> None:
    route = Route("phone", owners=("ada",))
    found = box(told("1"), routes=(route,))
    over = replace(told("2", RESOLVED), alert=replace(HOT, id="a", affected=()))
    assert ids(found.add([over], [route], MIDNIGHT, utc)) == ["1", "2"]


def test_after_the_end_an_alert_is_forgotten() -> None:
    found = box(told("1"))
    (first,) = found.deliveries
    assert found.done({first.key}, MIDNIGHT).informed == {"a": ("phone",)}
    found = found.done({first.key}, MIDNIGHT).add([told("2", RESOLVED)], [PHONE], MIDNIGHT, utc)
    assert found.informed == {}


def test_an_end_that_comes_while_the_beginning_is_under_way_leaves_nothing_behind() -> None:
    found = box(told("1"), told("2", RESOLVED))
    first, second = found.deliveries
    found = found.done({first.key}, MIDNIGHT)
    assert (found.deliveries, found.informed) == ((second,), {})


def test_quiet_hours_hold_back_and_the_morning_tells_all_at_once() -> None:
    found = box(told("1", at=NIGHT), told("2", at=NIGHT, alert="b"), routes=(ASLEEP,), at=NIGHT)
    assert ids(found, at=NIGHT) == []
    assert found.next_due("phone") == MORNING
    assert found.holds_back("phone", NIGHT) == {"a", "b"}
    assert ids(found, at=MORNING) == ["1", "2"]


def test_what_ended_before_the_morning_is_not_told_at_all() -> None:
    found = box(told("1", at=NIGHT), routes=(ASLEEP,), at=NIGHT)
    found = found.add([told("2", RESOLVED, NIGHT + HOUR)], [ASLEEP], NIGHT + HOUR, utc)
    assert found.deliveries == ()


def test_the_end_of_what_was_told_in_the_evening_is_told_in_the_morning() -> None:
    evening = MIDNIGHT - 3 * HOUR
    found = box(told("1", at=evening), routes=(ASLEEP,), at=evening)
    found = found.done({found.deliveries[0].key}, MIDNIGHT)
    found = found.add([told("2", RESOLVED, NIGHT)], [ASLEEP], NIGHT, utc)
    assert ids(found, at=NIGHT) == []
    assert ids(found, at=MORNING) == ["2"]


def test_what_gets_worse_at_night_is_told_at_once_and_not_again_in_the_morning() -> None:
    found = box(told("1", at=NIGHT), routes=(ASLEEP,), at=NIGHT)
    worse = Notice("2", WORSE, replace(HOT, id="a", level=Level.CRITICAL), NIGHT + 1)
    found = found.add([worse], [ASLEEP], NIGHT + 1, utc)
    assert ids(found, at=NIGHT + 1) == ["2"]
    assert len(found.deliveries) == 1


def test_what_nobody_could_be_told_for_a_day_is_dropped_and_counted() -> None:
    found = box(told("1"))
    assert found.pruned(MIDNIGHT + MOST_AGE_SECONDS, {"phone"}) == found
    late = found.pruned(MIDNIGHT + MOST_AGE_SECONDS + 1, {"phone"})
    assert (late.deliveries, late.dropped) == ((), 1)


def test_a_clock_that_is_set_back_delays_nothing_that_was_not_held_back() -> None:
    received = box(told("1", at=MIDNIGHT - 5))  # of a node, some seconds later
    before = MIDNIGHT - 5 * HOUR
    found = received.retimed((PHONE,), before, utc)
    assert ids(found, at=before) == ["1"]
    assert found.next_due("phone") == before
    assert found.holds_back("phone", before) == frozenset()
    over = received.add([told("2", RESOLVED, before)], [PHONE], before, utc)
    assert ids(over, at=before) == ["1", "2"]


def test_after_a_clock_was_set_back_only_the_quiet_hours_of_now_hold_back() -> None:
    held = box(told("1", at=NIGHT), routes=(ASLEEP,), at=NIGHT)
    days = 3 * 24 * HOUR
    for at, found in {NIGHT - HOUR: [], NIGHT - 10 * HOUR: ["1"], NIGHT - days: []}.items():
        assert ids(held.retimed((ASLEEP,), at, utc), at=at) == found
    assert held.retimed((ASLEEP,), NIGHT - days, utc).next_due("phone") == MORNING - days
    assert held.retimed((), NIGHT - days, utc) == held
    urgent = replace(told("1"), alert=replace(HOT, level=Level.CRITICAL))
    sent = box(urgent, routes=(ASLEEP,)).retimed((ASLEEP,), MIDNIGHT - HOUR, utc)
    assert ids(sent, at=MIDNIGHT - HOUR) == ["1"]


def test_a_clock_that_is_set_for_the_first_time_makes_nothing_old() -> None:
    found = box(told("1", at=100.0), at=100.0)
    assert found.pruned(MIDNIGHT, {"phone"}) == found


def test_deliveries_of_a_notifier_that_is_gone_go_with_it() -> None:
    assert box(told("1")).pruned(MIDNIGHT, {"mail"}).deliveries == ()


def test_it_is_bounded_and_the_newest_stay() -> None:
    many = [told(str(n), alert=str(n)) for n in range(MOST_DELIVERIES + 5)]
    found = box(*many, routes=(PHONE, MAIL))
    assert found.dropped == 10
    assert ids(found)[0] == "5"
    assert ids(found, "mail")[-1] == str(MOST_DELIVERIES + 4)


KINDS = st.sampled_from([FIRING, WORSE, REMINDER, RESOLVED])
STEPS = st.lists(st.tuples(KINDS, st.sampled_from("abc"), st.integers(0, 30)), max_size=30)


@given(STEPS)
def test_it_is_always_sound_and_the_end_is_told_to_whoever_heard_the_beginning(
    steps: list[tuple[NoticeKind, str, int]],
) -> None:
    found, heard = Outbox(), set[str]()
    for number, (kind, alert, hour) in enumerate(sorted(steps, key=lambda step: step[2])):
        at = MIDNIGHT + hour * HOUR
        found = found.add([told(str(number), kind, at, alert)], [ASLEEP], at, utc)
        check_outbox(found)
        ready = found.ready("phone", at)
        for delivery in ready:
            name = delivery.notice.alert.id
            if delivery.notice.kind is RESOLVED:
                assert name in heard, "an end without a beginning"
                heard.discard(name)
            else:
                heard.add(name)
        found = found.done({delivery.key for delivery in ready}, MIDNIGHT)


def test_only_what_a_notifier_accepted_counts_as_notified() -> None:
    """Without a notifier people read "notified once", though nobody was."""
    counted = replace(HOT, id="a", notified=1, last_notified=MIDNIGHT)
    unsent = box(told("1"))
    assert (unsent.shown(counted).notified, unsent.shown(counted).last_notified) == (0, None)
    (first,) = unsent.deliveries
    sent = unsent.done({first.key}, NIGHT)
    assert (sent.shown(counted).notified, sent.shown(counted).last_notified) == (1, NIGHT)


def test_a_notice_through_two_notifiers_counts_once() -> None:
    found = box(told("1"), routes=(PHONE, MAIL))
    found = found.done({one.key for one in found.deliveries}, MIDNIGHT)
    assert found.accepted["a"].times == 1
    found = found.add([told("2", REMINDER)], [PHONE, MAIL], NIGHT, utc)
    found = found.done({found.deliveries[0].key}, NIGHT)
    found = found.done({found.deliveries[0].key}, MORNING)
    assert (found.accepted["a"].times, found.accepted["a"].at) == (2, NIGHT)


@given(st.lists(st.integers(0, 3000), max_size=30))
def test_what_was_accepted_is_bounded(alerts: list[int]) -> None:
    found = Outbox()
    for number, alert in enumerate(alerts):
        found = found.add([told(str(number), alert=str(alert))], [PHONE], MIDNIGHT, utc)
        found = found.done({one.key for one in found.deliveries}, MIDNIGHT)
        check_outbox(found)
    assert sum(one.times for one in found.accepted.values()) == len(alerts)
