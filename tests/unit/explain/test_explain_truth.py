"""No reason claims what its evidence does not show, whatever the devices say."""

import re
from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from msgspec.structs import fields

from andon.alerts.rules.alerts_from_sample import board_from_sample
from andon.cli.show.text import display_width, painted
from andon.cli.show.why import answer, answer_to_json, render_why
from andon.cli.terminal import Terminal
from andon.explain.conditions.catalogue import CONDITIONS, DEFAULTS
from andon.explain.conditions.heat.limits import HEAT_REASONS
from andon.explain.conditions.judging import found_on
from andon.explain.conditions.node.drivers import readable
from andon.explain.conditions.node.host_memory_starves import full_percent, judge
from andon.explain.conditions.rulebook import Rulebook
from andon.explain.evidence import measures
from andon.explain.evidence.blame import listed_users
from andon.explain.evidence.forecast import arrival
from andon.explain.evidence.growth import growth
from andon.explain.evidence.measures import peers, process_idle_seconds
from andon.explain.evidence.phrasing import format_evidence
from andon.explain.evidence.reasons import Evidence, Reason
from andon.explain.evidence.view import View
from andon.explain.why import explain, explain_absence, explain_node, worst_first
from andon.model.device import (
    SAMPLE_VALUES,
    Process,
    Snapshot,
)
from andon.model.programs import program_of
from andon.model.throttling import REASONS
from tests.support import snapshots as golden
from tests.support.generated_nodes import nodes


@pytest.mark.slow
@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(nodes())
@example([golden.farm()])
@example([golden.office()])
@example([golden.no_gpu()])
@example([golden.faults()])
@example(golden.ticks(6))
def test_every_claim_rests_on_evidence_and_all_evidence_on_readings(past: list[Snapshot]) -> None:
    for uuid in ("GPU-0", "GPU-1", "GPU-2", "GPU-9", *(s.device.uuid for s in past[-1].devices)):
        reasons = explain(past, uuid)
        assert reasons
        for reason in reasons:
            assert_numbers_are_evidence(reason)
            assert_evidence_is_true(reason, past, uuid)
            assert_process_was_seen(reason, past)
        assert_ranked(reasons)


@pytest.mark.slow
@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(nodes(), st.randoms())
def test_the_same_readings_give_the_same_reasons_in_any_order(
    past: list[Snapshot], chance: Random
) -> None:
    mixed = list(past)
    chance.shuffle(mixed)
    assert explain_node(mixed) == explain_node(past)
    assert explain_absence(mixed) == explain_absence(past)
    found = explain_node(past)
    assert set(found) == {s.device.uuid for s in past[-1].devices}
    lit = {lamp.uuid: lamp for lamp in board_from_sample(past[-1], Rulebook()).devices}
    worst = worst_first(found, lit.values())
    assert sorted(worst) == sorted(found)
    urgency = [(lit[uuid].urgency, found[uuid][0].weight) for uuid in worst]
    assert urgency == sorted(urgency, reverse=True)


@pytest.mark.slow
@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(nodes(), st.integers(40, 160))
def test_any_answer_can_be_shown_within_its_width_and_as_json(
    past: list[Snapshot], width: int
) -> None:
    text = painted(render_why(answer(past), width))
    assert text.endswith("\n")
    assert all(display_width(line) <= width for line in text.splitlines())
    pipe = Terminal(80, 24, color=False, live=False)
    assert pipe.json_text(answer_to_json(answer(past))).count("\n") == 1


def assert_numbers_are_evidence(reason: Reason) -> None:
    left = re.sub(r"\bGPU \d+(:\d+)?", "", reason.sentence)  # which device it is
    for words in sorted(map(format_evidence, reason.evidence), key=len, reverse=True):
        left = left.replace(words, "")
    assert not re.search(r"\d", left), (reason.sentence, left)


def assert_evidence_is_true(reason: Reason, past: Sequence[Snapshot], uuid: str) -> None:
    for evidence in reason.evidence:
        if evidence.value is None:
            assert reason.code == "unreadable"
            assert _known(past, uuid, evidence.name) is None
        else:
            assert evidence.value in _truths(evidence, reason, past, uuid), evidence


def assert_process_was_seen(reason: Reason, past: Sequence[Snapshot]) -> None:
    seen = [p for snapshot in past for s in snapshot.devices for p in s.processes]
    assert reason.process is None or reason.process in seen
    if reason.process is not None:
        assert any(e.name == "process.pid" for e in reason.evidence)


def assert_ranked(reasons: Sequence[Reason]) -> None:
    weights = [reason.weight for reason in reasons]
    assert weights == sorted(weights, reverse=True)
    if not any(r.code in ("no_device", "no_driver") for r in reasons):
        assert len({r.code for r in reasons}) == len(reasons)
    assert all(0 < r.confidence <= 1 and r.sentence.endswith(".") for r in reasons)
    fine = any(r.code == "healthy" for r in reasons)
    assert not (fine and any(r.is_trouble for r in reasons))


def _known(past: Sequence[Snapshot], uuid: str, field: str) -> object:
    view = View.of(past, uuid, lambda device: DEFAULTS)
    assert view is not None
    return getattr(view.sample, field, None)


def _truths(
    evidence: Evidence, reason: Reason, past: Sequence[Snapshot], uuid: str
) -> Sequence[object]:
    """What may stand under this name: every name of evidence has its rule here."""
    view = View.of(past, uuid, lambda device: DEFAULTS)
    head, _, tail = evidence.name.partition(".")
    if view is None:
        gone = [past[-1].at - s.at for s in past if uuid in [d.device.uuid for d in s.devices]]
        return [uuid, *gone, *_of_faults(past[-1])]
    if evidence.name in SAMPLE_VALUES:
        value = getattr(view.status.sample, evidence.name)
        return [", ".join(value) or "none" if isinstance(value, tuple) else value]
    if head in ("limits", "host", "missing", "last"):
        return [_inside(view, head, tail)]
    if head == "process":
        return _of_process(tail, reason, view)
    if head == "users" and tail:
        user, _, kind = tail.rpartition(".")
        return [sum(getattr(p, kind) or 0 for p in view.compute if p.user == user)]
    judged = _judged(evidence, reason, view)
    if evidence.name != "peers" and (measure := getattr(measures, evidence.name, None)):
        return [*judged, measure(view)]  # a condition may state one that it does not judge by
    if judged:
        return judged
    if evidence.name == "reason" and reason.code == "unreadable":
        return [view.status.reason, *view.status.missing.values()]
    return [_other(evidence.name, reason, view)]


JUDGED = ("threshold", "speed_lost_percent", "disk_percent", "clock_loss_percent")


def _judged(evidence: Evidence, reason: Reason, view: View) -> list[object]:
    """What the condition of a reason found, its driver said, or its track shows."""
    if evidence.name in OF_FAULTS:
        return _of_faults(view.snapshot)
    if (head := evidence.name.partition(".")[0]) in ("setup", "driver"):
        return _of_driver(head, view)
    if evidence.name in TRENDS or evidence.name in BOUNDED:
        return _of_track(evidence.name, view)
    if evidence.name not in JUDGED:
        return []
    mine = [one for one in CONDITIONS if reason.code in {kind.code for kind in one.kinds}]
    found = [one for it in mine if (one := found_on(it.judged, view, DEFAULTS)) is not None]
    return [round(n, 1) for one in found for n in (one.value, one.threshold) if n is not None]


OF_FAULTS = ("source", "fault", "cards", "code", "container", "devices_readable")
TRENDS = {
    f"{what}{which}_seconds"
    for what in ("slowdown_in", "full_in")
    for which in ("", "_earliest", "_latest")
} | {"growth_bytes_per_second", "growth_bytes_per_minute"}
BOUNDED = ("last_hour_percent", "readings_seconds", "devices_waiting", "devices_with_work")


def _of_driver(head: str, view: View) -> list[object]:
    """What its driver says of its modes and versions."""
    setup, words = view.device.setup, {True: "on", False: "off"}
    if head == "setup":
        modes = (setup.ecc, setup.ecc_pending, setup.persistence)
        return [setup.start_seconds, *(words[mode] for mode in modes if mode is not None)]
    versions = view.snapshot.host.drivers or ()
    modules = [part for one in versions for pair in one.modules.items() for part in pair]
    return [*modules, *(one.library for one in versions), "its library on disk"]


def _of_faults(snapshot: Snapshot) -> list[object]:
    """What the readers that failed reported, and what can be read all the same."""
    found: list[object] = [readable(snapshot)]
    for one in snapshot.faults:
        found += [one.source, one.reason, one.cards, one.code, one.container]
    return found


def _of_track(name: str, view: View) -> list[object]:
    """What follows from its recent past: shares of the last hour, trends, who waits."""
    track, readings = view.track, view.track.readings
    if name == "readings_seconds":
        return [readings[-1][0] - readings[0][0]]
    if name == "last_hour_percent":
        single = [frozenset({reason.name}) for reason in REASONS]
        return [track.held_back_percent(one) for one in (HEAT_REASONS, *single)]
    if name.startswith("devices_"):
        starved = judge(view.snapshot, view.figures)
        return [starved.about.waiting, starved.about.working] if starved else []
    trend = track.heat_trend if name.startswith("slowdown_in") else track.memory_trend
    if trend is None:
        return []
    sample, device = view.sample, view.device
    room = (device.memory_total_bytes or 0) - (sample.memory_used_bytes or 0)
    rooms = [room, sample.memory_free_bytes or 0]
    rooms.append((device.limits.slowdown_celsius or 0) - (sample.temperature_celsius or 0))
    ends = [end for one in rooms if (end := arrival(trend, one)) is not None]
    return [trend.slope, 60 * trend.slope, *(round(part) for end in ends for part in end)]


def _inside(view: View, head: str, tail: str) -> object:
    if head == "limits":
        return getattr(view.status.device.limits, tail)
    if head == "last" and tail == "users":
        return listed_users(view.status.last_users)
    if head == "last":
        return getattr(view.status.sample, tail)
    if head == "host" and tail == "memory_percent":
        return full_percent(view.snapshot.host)
    return view.status.missing[tail] if head == "missing" else getattr(view.snapshot.host, tail)


def _of_process(tail: str, reason: Reason, view: View) -> Sequence[object]:
    process = reason.process
    if tail == "name":
        named = view.processes if process is None else (process,)
        return [program_of(p.command, p.name) for p in named]
    if process is None:
        return [getattr(p, tail) for p in view.processes]
    if tail == "running_seconds":
        return [view.at - (process.started or 0.0)]
    if tail == "left_seconds":
        return [view.at - one.last for one in view.departed() if one.process == process]
    if tail == "idle_seconds":
        return [process_idle_seconds(view, process)]
    assert tail in {f.name for f in fields(Process)}
    return [getattr(process, tail)]


def _other(name: str, reason: Reason, view: View) -> object:
    grown, worker = growth(view), view.worker()
    users = {p.user for p in view.compute if p.user and f"{p.user} (" in reason.sentence}
    rules = {
        "state": str(view.status.state),
        "reason": view.status.reason,
        "parent": view.status.device.parent,
        "memory_kind": str(view.status.device.memory_kind),
        "memory_total_bytes": view.status.device.memory_total_bytes,
        "processes": 0 if reason.code == "healthy" else len(view.processes),
        "compute": len(view.compute),
        "instances": len(view.instances),
        "peers": len(peers(view)),
        "users": len(users),
        "processes.blamed": worker and worker.text,
        "memory_rise_bytes": grown and grown.rise_bytes,
        "memory_rise_seconds": grown and grown.seconds,
        "memory_growth_bytes_per_second": grown and grown.bytes_per_second,
        "full_in_seconds": grown and grown.full_in_seconds,
    }
    return rules[name]


def test_every_code_has_one_meaning_and_its_milder_form_weighs_less() -> None:
    kinds = {kind for one in CONDITIONS for kind in one.kinds}  # conditions may share one
    assert len(kinds) == len({kind.code for kind in kinds})
    assert all(
        kind.weight >= (kind.weight if kind.mild is None else kind.mild) > 0 for kind in kinds
    )
