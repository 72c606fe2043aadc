"""The watcher: what is wrong is written down and told, and nobody waits for anybody."""

import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from andon.alerts.rules.digest import MachineWeek, WeekDigest, digest_notice
from andon.alerts.rules.handover import HandedNotice
from andon.alerts.rules.outbox import Delivery, SavedAlerts
from andon.alerts.rules.past import Query
from andon.alerts.rules.routes import Route
from andon.alerts.rules.rule_page import rule_list
from andon.app.history import separate_history
from andon.app.settings import load_settings
from andon.errors import Gone, Unavailable
from andon.explain.conditions.rulebook import Rulebook, thresholds
from andon.explain.evidence.observation import OwnTrouble
from andon.model.alert import Alert, Level, Notice, NoticeKind, Phase, Silence
from andon.model.codec import document
from andon.model.device import State
from andon.ports import AlertStore
from andon.settings.moments import QuietHours
from andon.settings.store_url import MEMORY
from andon.stores.memory import MemoryAlertStore
from tests.support.alerting_parts import SOON, Heard, Moody, Playing, look
from tests.support.notices import AT
from tests.support.waiting import wait_for

FIRING, RESOLVED = NoticeKind.FIRING, NoticeKind.RESOLVED


def test_a_trouble_and_its_end_are_told_once_each() -> None:
    phone = Heard()
    playing = Playing(phone)
    playing.lose()
    wait_for(lambda: phone.kinds() == [FIRING])
    playing.tick(State.LOST, ticks=5)
    playing.find_again()
    wait_for(lambda: phone.kinds() == [FIRING, RESOLVED])
    (episode,) = playing.watcher.past(Query(rule="device_lost"))
    assert episode.state is Phase.RESOLVED
    playing.watcher.close()
    assert phone.closed
    assert playing.watcher.health()["reason"] == "the watcher has stopped"


def test_after_a_restart_nothing_is_told_twice() -> None:
    phone = Heard()
    playing = Playing(phone)
    playing.lose()
    wait_for(lambda: phone.kinds() == [FIRING])
    playing.again(later := Heard())
    playing.tick(State.LOST, ticks=5)
    assert later.kinds() == []
    playing.find_again()
    wait_for(lambda: later.kinds() == [RESOLVED])
    playing.watcher.close()


def test_a_device_is_lost_since_its_alert_began_also_after_a_restart() -> None:
    playing = Playing()
    playing.lose()
    (alert,) = playing.watcher.alerts()
    playing.again()
    playing.tick(State.LOST)
    (fresh,) = look(time.time() + 60, State.LOST).devices
    (found,) = playing.watcher.lasting((replace(fresh, sample=None),))
    assert found.since == alert.since
    assert playing.watcher.lasting((fresh,)) == (fresh,)  # it answered since: another loss
    unnamed = replace(fresh.device, uuid="nvidia@0000:01:00.0")
    (found,) = playing.watcher.lasting((replace(fresh, sample=None, device=unnamed),))
    assert (found.device.uuid, found.since) == (alert.subject, alert.since)
    hung = (replace(fresh, sample=None, state=State.STALE),)
    assert playing.watcher.lasting(hung) == hung
    playing.watcher.close()


def _lost(playing: Playing) -> Alert:
    return next(a for a in playing.watcher.alerts() if a.rule == "device_lost")


def test_without_a_notifier_nobody_was_notified() -> None:
    playing = Playing()
    playing.lose()
    wait_for(lambda: any(a.state is Phase.FIRING for a in playing.watcher.alerts()))
    assert (_lost(playing).notified, _lost(playing).last_notified) == (0, None)
    playing.watcher.close()


def test_notified_is_what_was_accepted_also_after_a_restart_and_in_the_past() -> None:
    phone = Heard()
    phone.broken = True
    playing = Playing(phone)
    playing.lose()
    wait_for(phone.entered.is_set)
    assert _lost(playing).notified == 0
    playing.again(later := Heard())
    wait_for(lambda: later.kinds() == [FIRING])
    wait_for(lambda: _lost(playing).notified == 1)
    playing.again(last := Heard())
    playing.tick(State.LOST)
    assert _lost(playing).notified == 1
    playing.find_again()
    wait_for(lambda: last.kinds() == [RESOLVED])
    past = Query(rule="device_lost")
    wait_for(lambda: [one.notified for one in playing.watcher.past(past)] == [2])
    playing.watcher.close()


def test_what_could_not_be_told_before_a_restart_is_told_after_it() -> None:
    phone = Heard()
    phone.broken = True
    playing = Playing(phone)
    playing.lose()
    wait_for(phone.entered.is_set)
    playing.again(later := Heard())
    wait_for(lambda: later.kinds() == [FIRING])
    playing.watcher.close()


@pytest.mark.slow
def test_a_notifier_that_hangs_delays_neither_another_nor_the_end() -> None:
    stuck, phone = Heard("stuck"), Heard()
    stuck.free.clear()
    playing = Playing(stuck, phone, waits=replace(SOON, leaving=0.2))
    playing.lose()
    wait_for(lambda: phone.kinds() == [FIRING])
    playing.find_again()
    wait_for(lambda: phone.kinds() == [FIRING, RESOLVED])
    assert stuck.told == []
    playing.watcher.close()  # would never return if it waited


def test_a_failing_notifier_is_seen_and_told_through_the_others() -> None:
    broken, phone = Heard("broken"), Heard()
    broken.broken = True
    playing = Playing(broken, phone)
    playing.lose()
    wait_for(lambda: not playing.watcher.health()["notifiers"][0]["ok"])
    playing.tick(State.LOST, ticks=6)
    wait_for(lambda: phone.kinds("notifier") == [FIRING])
    (about,) = [notice for notice in phone.told if notice.alert.rule == "notifier"]
    assert about.alert.subject == "notifier:broken"
    health = playing.watcher.health()
    assert health["state"] == "degraded"
    assert health["reason"] == "failing notifiers: broken"
    assert health["notifiers"][0]["reason"] == "nobody answers"
    broken.broken = False
    wait_for(lambda: broken.kinds() == [FIRING])
    assert broken.kinds("notifier") == [], "it is not told of its own trouble"
    playing.watcher.close()


def test_several_at_once_are_one_message() -> None:
    phone = Heard()
    playing = Playing(phone)
    playing.lose(3)
    wait_for(lambda: len(phone.told) == 3)
    assert len(phone.batches) == 1
    playing.watcher.close()


def test_while_the_disk_is_full_people_are_told_and_health_says_so() -> None:
    ledger, phone = Moody(), Heard()
    ledger.broken = True
    playing = Playing(phone, ledger=lambda: ledger)
    playing.lose()
    wait_for(lambda: phone.kinds() == [FIRING])
    health = playing.watcher.health()
    assert (health["state"], health["hint"]) == ("degraded", "free some space")
    assert health["reason"] == "alerts are kept in memory only: the disk is full"
    playing.tick(State.LOST, ticks=3)
    wait_for(lambda: phone.kinds("store") == [FIRING])
    ledger.broken = False
    playing.find_again()
    wait_for(lambda: playing.watcher.health()["state"] == "ok")
    wait_for(lambda: len(ledger.episodes(Query(rule="device_lost"))) == 1)
    playing.watcher.close()


def test_a_ledger_that_cannot_be_opened_is_tried_again() -> None:
    ledger, phone = MemoryAlertStore(), Heard()
    shut = threading.Event()

    def opened() -> AlertStore:
        if not shut.is_set():
            raise Unavailable("the database is away")
        return ledger

    playing = Playing(phone, ledger=opened)
    playing.lose()
    wait_for(lambda: phone.kinds() == [FIRING])
    with pytest.raises(Unavailable, match="away"):
        playing.watcher.past()
    shut.set()
    wait_for(lambda: ledger.episodes(Query(rule="device_lost")))
    playing.watcher.close()


def test_deliveries_of_a_ledger_that_opens_late_are_told() -> None:
    lost = Alert("device_lost@GPU-9#1", "device_lost", "GPU-9", Level.CRITICAL, Phase.FIRING, 1.0)
    delivery = Delivery(Notice("old", FIRING, lost, time.time()), "phone", 0.0)
    ledger, phone = MemoryAlertStore(), Heard()
    ledger.save({}, (), [delivery])
    opened = threading.Event()

    def late() -> AlertStore:
        opened.wait(60)
        return ledger

    playing = Playing(phone, ledger=late, waits=replace(SOON, opening=0.0))
    playing.tick(State.OK)
    opened.set()
    wait_for(lambda: [notice.id for notice in phone.told] == ["old"])
    wait_for(lambda: (saved := ledger.load()) is not None and saved.deliveries == ())
    playing.watcher.close()


def test_a_clock_that_was_set_back_since_a_notice_came_does_not_hold_it_back() -> None:
    lost = Alert("device_lost@GPU-9#1", "device_lost", "GPU-9", Level.CRITICAL, Phase.FIRING, 1.0)
    came = time.time() + 3600.0  # by the clock of before
    ledger, phone = MemoryAlertStore(), Heard()
    ledger.save({}, (), [Delivery(Notice("n17:1", FIRING, lost, came - 5.0), "phone", came)])
    playing = Playing(phone, ledger=lambda: ledger)
    wait_for(lambda: [notice.id for notice in phone.told] == ["n17:1"])
    playing.watcher.close()


def test_what_a_hub_relays_as_it_begins_to_lead_is_added_to_what_the_last_one_left() -> None:
    lost = Alert("device_lost@GPU-9#1", "device_lost", "GPU-9", Level.CRITICAL, Phase.FIRING, 1.0)
    old, new = (Notice(name, FIRING, lost, time.time()) for name in ("old", "new"))
    ledger, phone, opened = MemoryAlertStore(), Heard(), threading.Event()
    ledger.save({}, (), [Delivery(old, "phone", 0.0)])

    def late() -> AlertStore:
        opened.wait(60)
        return ledger

    playing = Playing(phone, ledger=late, waits=replace(SOON, opening=60.0))
    relaying = threading.Thread(target=playing.watcher.relay, args=([HandedNotice(new)],))
    relaying.start()
    relaying.join(0.1)  # it has to wait for the store
    opened.set()
    relaying.join(60)
    wait_for(lambda: {notice.id for notice in phone.told} == {"old", "new"})
    playing.watcher.close()
    assert sorted(notice.id for notice in phone.told) == ["new", "old"]


@pytest.mark.parametrize(
    "state",
    [
        {"alerting": {"schema": "of tomorrow"}, "informed": {}},
        {"alerting": [], "informed": []},
        {"alerting": None, "informed": {"a": 3}},
        {},
    ],
)
def test_what_was_kept_and_makes_no_sense_is_begun_anew(state: dict[str, Any]) -> None:
    phone, ledger = Heard(), MemoryAlertStore()
    ledger.save(state, (), ())
    playing = Playing(phone, ledger=lambda: ledger)
    playing.lose()
    wait_for(lambda: phone.kinds() == [FIRING])
    playing.watcher.close()


def test_a_disk_that_hangs_delays_a_message_and_does_not_stop_it() -> None:
    ledger, phone = Moody(), Heard()
    waits = replace(SOON, commit=0.05, stuck_store=0.1)
    playing = Playing(phone, ledger=lambda: ledger, waits=waits)
    playing.tick(State.OK)
    ledger.free.clear()
    playing.lose()
    wait_for(lambda: phone.kinds() == [FIRING])
    wait_for(lambda: playing.watcher.health()["state"] == "degraded")
    health = playing.watcher.health()
    assert "has not responded" in health["reason"]
    ledger.free.set()
    playing.watcher.close()


def test_nothing_is_told_before_it_is_written() -> None:
    ledger = Moody()
    seen: list[SavedAlerts | None] = []

    class Looking(Heard):
        def send(self, notices: Sequence[Notice], firing: Sequence[Alert]) -> None:
            seen.append(ledger.load())
            super().send(notices, firing)

    phone = Looking()
    playing = Playing(phone, ledger=lambda: ledger)
    playing.lose()
    wait_for(lambda: phone.told)
    assert seen[0] is not None
    assert [delivery.notice.id for delivery in seen[0].deliveries] == [phone.told[0].id]
    playing.watcher.close()


def test_quiet_hours_hold_back() -> None:
    always = QuietHours(0, 1439)
    asleep = Heard("asleep")
    phone = Heard()
    route = Route("asleep", quiet=always, bypass_quiet_hours=None)
    playing = Playing((asleep, route), phone)
    playing.lose()
    wait_for(lambda: phone.kinds() == [FIRING])
    assert playing.watcher.health()["waiting"] in (1, 2)
    assert asleep.told == []
    playing.find_again()
    wait_for(lambda: phone.kinds() == [FIRING, RESOLVED])
    wait_for(lambda: playing.watcher.health()["waiting"] == 0)
    playing.watcher.close()
    assert asleep.told == []


def test_acknowledging_and_silencing_are_heard_by_subscribers() -> None:
    playing = Playing()
    heard: list[Alert] = []
    leave = playing.watcher.subscribe(heard.extend)
    playing.lose()
    watcher = playing.watcher
    (alert,) = [one for one in watcher.alerts() if one.rule == "device_lost"]
    assert watcher.find(alert.id).id == alert.id
    assert watcher.acknowledge(alert.id, "ada", "mine").acknowledged is not None
    assert heard[-1].acknowledged is not None
    assert watcher.unacknowledge(alert.id).acknowledged is None
    until = time.time() + 3600
    watcher.silence(Silence("s1", until, rule="device_lost"))
    assert heard[-1].silenced_until == until
    assert [silence.id for silence in watcher.silences()] == ["s1"]
    watcher.unsilence("s1")
    assert heard[-1].silenced_until is None
    leave()
    count = len(heard)
    watcher.acknowledge(alert.id)
    assert len(heard) == count
    with pytest.raises(Gone):
        watcher.acknowledge("nothing@nobody#1")
    with pytest.raises(Gone):
        watcher.find("nothing@nobody#1")
    playing.find_again()
    wait_for(lambda: watcher.past(Query(state=Phase.RESOLVED)))
    assert watcher.find(alert.id).state is Phase.RESOLVED
    playing.watcher.close()


def test_a_listener_that_fails_stops_nobody() -> None:
    playing, heard = Playing(), list[Alert]()

    def fails(_changed: tuple[Alert, ...]) -> None:
        raise RuntimeError("no")

    playing.watcher.subscribe(fails)
    playing.watcher.subscribe(heard.extend)
    playing.lose()
    wait_for(lambda: heard)
    playing.watcher.close()


def test_a_test_goes_through_one_or_all() -> None:
    broken, phone = Heard("broken"), Heard()
    broken.broken = True
    playing = Playing(broken, phone)
    found = playing.watcher.test()
    assert found["phone"] is None
    assert found["broken"] is not None
    assert found["broken"].reason == "nobody answers"
    assert [notice.kind for notice in phone.told] == [NoticeKind.TEST]
    assert set(playing.watcher.test("phone")) == {"phone"}
    with pytest.raises(Gone, match="no notifier 'mail'"):
        playing.watcher.test("mail")
    playing.watcher.close()


def test_a_notifier_that_raises_anything_fails_without_its_words(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Raising(Heard):
        def send(self, notices: Sequence[Notice], firing: Sequence[Alert]) -> None:
            raise ValueError("https://user:hunter2@host")

    playing = Playing(Raising())
    error = playing.watcher.test("phone")["phone"]
    assert error is not None
    assert "ValueError" in error.reason
    assert "hunter2" not in error.reason + caplog.text
    playing.watcher.close()


def test_troubles_of_andon_itself_become_alerts() -> None:
    phone = Heard()
    trouble = OwnTrouble("sampler", "30 % of readings missed in the last 5 min")
    playing = Playing(phone, self_checks=lambda: [trouble])
    playing.tick(State.OK, ticks=6)
    wait_for(lambda: phone.kinds("sampler") == [FIRING])
    playing.watcher.close()


def test_a_silent_sampler_is_no_recovery_and_is_told() -> None:
    phone = Heard()
    playing = Playing(phone)
    playing.lose()
    wait_for(lambda: phone.kinds() == [FIRING])
    playing.waits, playing.interval_seconds = replace(SOON, turn=0.01, silent=0.0), 0.001
    playing.again(phone)
    playing.tick(State.LOST)

    def later() -> bool:
        playing.steady += 10.0
        return phone.kinds("sampler") == [FIRING]

    wait_for(later)
    assert phone.kinds() == [FIRING]
    playing.watcher.close()


def test_the_rules_say_what_counts_for_each_device() -> None:
    playing = Playing()
    playing.tick(State.OK, State.OK)
    watcher, snapshot = playing.watcher, playing.watcher.snapshot
    assert snapshot is not None
    rules = document(rule_list(watcher.rulebook, snapshot.devices, watcher.awake))["rules"]
    rows = {row["name"]: row for row in rules}
    assert [one["threshold"] for one in rows["thermal"]["devices"]] == [80.0, 80.0]
    assert rows["thermal"]["active"]
    assert not rows["idle_lease"]["active"]
    assert rows["idle_lease"]["inactive_reason"]
    playing.watcher.close()


def test_alerts_of_simulated_devices_are_stored_only_where_a_store_is_named() -> None:
    simulated = replace(load_settings({}).settings, simulate=2)
    assert separate_history(simulated).history_store == MEMORY
    named = replace(simulated, history_store="sqlite:///h.sqlite")
    assert separate_history(named) == named


def test_other_notifiers_take_over_and_those_that_stay_are_not_told_twice() -> None:
    stays, goes, comes = Heard("stays"), Heard("goes"), Heard("comes")
    playing = Playing(stays, goes)
    playing.lose()
    wait_for(lambda: (stays.kinds(), goes.kinds()) == ([FIRING], [FIRING]))
    unused = Heard("stays")
    routed = [(one, Route(one.name)) for one in (unused, comes)]
    playing.watcher.judge_by(playing.watcher.rulebook, routed, {"stays"})
    assert playing.watcher.notifiers == ("stays", "comes")
    assert (goes.closed, unused.closed, stays.closed) == (True, True, False)
    playing.tick(State.LOST, ticks=5)
    playing.find_again()
    wait_for(lambda: stays.kinds() == [FIRING, RESOLVED])
    assert goes.kinds() == [FIRING]
    assert comes.kinds() == []  # it was never told that it fired
    playing.watcher.close()


def test_a_rule_that_is_turned_off_ends_its_alerts_and_other_thresholds_are_in_force() -> None:
    phone = Heard()
    playing = Playing(phone)
    playing.lose()
    wait_for(lambda: phone.kinds() == [FIRING])
    off = Rulebook(thresholds(frozenset({"device_lost"})))
    playing.watcher.judge_by(off, [(Heard(), Route(phone.name))], {phone.name})
    playing.tick(State.LOST, ticks=5)
    assert [alert.rule for alert in playing.watcher.alerts()] == []
    playing.watcher.close()


def digest() -> Notice:
    week = WeekDigest(AT, (MachineWeek("m", {}),), lambda at: 0.0)
    return digest_notice(week)


def test_a_digest_is_kept_until_its_notifier_takes_it_and_never_sent_again() -> None:
    phone, mail = Heard(), Heard("mail")
    phone.broken = True
    playing = Playing(phone, mail)
    assert playing.watcher.reported is None
    at = time.time()
    playing.watcher.report(at, {"phone": digest(), "mail": digest()})
    wait_for(lambda: [one.alert.rule for one in mail.told] == ["digest"])
    wait_for(phone.entered.is_set)
    playing.again(later := Heard(), other := Heard("mail"))
    wait_for(lambda: [one.alert.rule for one in later.told] == ["digest"])
    assert "What broke:" in later.told[0].alert.evidence.values()
    assert playing.watcher.reported == at
    playing.again(last := Heard())
    playing.lose()
    wait_for(lambda: last.kinds() == [FIRING])
    assert [one.alert.rule for one in (*last.told, *other.told)] == ["device_lost"]
    assert playing.watcher.reported == at
    playing.watcher.close()


def test_whether_a_digest_was_sent_is_not_known_while_the_store_cannot_be_opened() -> None:
    gate, ledger = threading.Event(), MemoryAlertStore()
    ledger.save({"reported": 7.0}, (), ())

    def opened() -> AlertStore:
        if not gate.is_set():
            raise Unavailable("not yet")
        return ledger

    playing = Playing(ledger=opened)
    with pytest.raises(Unavailable):
        _ = playing.watcher.reported
    playing.tick(State.OK)
    gate.set()
    wait_for(lambda: playing.watcher.health()["state"] == "ok")
    assert playing.watcher.reported == 7.0
    playing.watcher.close()
    saved = ledger.load()
    assert saved is not None
    assert saved.state["reported"] == 7.0
