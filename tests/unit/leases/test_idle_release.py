"""Idle leases end politely: two warnings, time to answer, and never while anything runs."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from andon.leases.idle.releaser import IdleReleaser
from andon.leases.idle.rules.ending import (
    LEAST_SHARE,
    IdleLease,
    IdleStep,
    followed,
    is_idle,
)
from andon.leases.rules.occupants import BookView
from andon.leases.rules.policy import NO_POLICY, Policy, UserLimits, policy_from
from andon.model.device import DeviceStatus, Process, Snapshot, State
from andon.model.lease import Claim, LeaseState
from tests.support.rows import rows
from tests.support.sharing_parts import claim, gpu, lease

ALLOWED = 3600.0
SEEN = {"GPU-0": gpu(0), "GPU-1": gpu(1)}
BUSY = Process(7)


def by_uuid(*statuses: DeviceStatus) -> dict[str, DeviceStatus]:
    return {one.device.uuid: one for one in statuses}


@rows("held, statuses, idle", [
    (claim(lease(0)), SEEN, True),
    (claim(lease(0, 1)), SEEN, True),
    (claim(lease(0)), by_uuid(gpu(0, state=State.ASLEEP)), True),
    (claim(lease(0, job=True)), SEEN, False),
    (claim(lease(0, containers=("c",))), SEEN, False),
    (claim(None), SEEN, False),
    (claim(lease(0), LeaseState.ORPHANED), SEEN, False),
    (claim(lease(0)), by_uuid(gpu(0, processes=[BUSY])), False),
    (claim(lease(0, 1)), by_uuid(gpu(0), gpu(1, processes=[BUSY])), False),
    (claim(lease(0)), by_uuid(gpu(0, busy=1)), False),
    (claim(lease(0)), by_uuid(gpu(0, busy=None)), False),
    (claim(lease(0)), by_uuid(gpu(0, state=State.STALE)), False),
    (claim(lease(0)), by_uuid(gpu(0, state=State.LOST)), False),
    (claim(lease(0)), by_uuid(gpu(0, missing={"processes": "no permission"})), False),
    (claim(lease(0, 9)), SEEN, False),
])  # fmt: skip
def test_what_is_not_known_to_be_idle_is_busy(
    held: Claim, statuses: dict[str, DeviceStatus], idle: bool
) -> None:
    assert is_idle(held, statuses) is idle


@rows("seconds, warned, step", [
    (1799, (), IdleStep.NOTHING),
    (1800, (), IdleStep.WARN),
    (9999, (), IdleStep.WARN),
    (2699, (1800,), IdleStep.NOTHING),
    (2700, (1800,), IdleStep.WARN),
    (3599, (1800, 2700), IdleStep.NOTHING),
    (3600, (1800, 2700), IdleStep.RELEASE),
    (3600, (3500, 3550), IdleStep.NOTHING),
])  # fmt: skip
def test_when_what_is_due(seconds: float, warned: tuple[float, ...], step: IdleStep) -> None:
    assert IdleLease(0.0, warned).step(seconds, ALLOWED) is step


LOOKS = st.lists(
    st.tuples(st.floats(0.1, 5000), st.booleans(), st.booleans(), st.sampled_from([60.0, ALLOWED])),
    max_size=60,
)


@given(LOOKS)
def test_nothing_ends_without_two_warnings_and_never_while_a_process_is_there(
    looks: list[tuple[float, bool, bool, float]],
) -> None:
    """Whatever the times between looks, the use, warnings that fail and changed policies."""
    at, known, taken = 0.0, dict[str, IdleLease](), list[float]()
    held, busy_at = claim(lease(0)), 0.0
    for pause, busy, takes, allowed in looks:
        at += pause
        statuses = by_uuid(gpu(0, processes=[BUSY] * busy))
        known = followed(known, (held,), statuses, at)
        if busy:
            assert known == {}
            taken, busy_at = [], at
            continue
        step = known["k7qm2"].step(at, allowed)
        if step is IdleStep.WARN and takes:
            known["k7qm2"] = known["k7qm2"].warned_at(at)
            taken.append(at)
        if step is IdleStep.RELEASE:
            assert len(taken) == 2
            assert at - busy_at >= allowed
            assert at - taken[1] >= LEAST_SHARE * allowed


class Machine:
    """The engine with a clock, a book and devices of the test's own."""

    def __init__(self, policy: Policy, *claims: Claim, heard: bool = True) -> None:
        self.at, self.claims, self.warned = 0.0, claims, list[str]()
        self.ended, self.heard, self.page_known = list[tuple[str, str]](), heard, True
        self._releaser = IdleReleaser(
            lambda: BookView(self.claims) if self.page_known else None,
            self._warn,
            lambda: policy,
            lambda name, note: self.ended.append((name, note)),
            lambda: self.at,
        )

    def _warn(self, claim: Claim, text: str) -> bool:
        self.warned.append(text)
        return self.heard

    def look(self, at: float, *statuses: DeviceStatus) -> None:
        self.at = at
        devices = statuses or (gpu(0), gpu(1))
        self._releaser.check(Snapshot(node="n", at=at, devices=devices))


def policy(**more: Any) -> Policy:
    return Policy("/etc/andon/policy.toml", UserLimits(release_idle_after=ALLOWED, **more))


def test_an_owner_is_warned_twice_and_then_the_lease_ends() -> None:
    machine = Machine(policy(), claim(lease(0)))
    for at in range(0, 3700, 10):
        machine.look(at)
    assert [text.partition(";")[0] for text in machine.warned] == [
        "lease k7qm2 has been idle for 30 min",
        "lease k7qm2 has been idle for 45 min",
    ]
    assert "ends it in 15 min unless it is used" in machine.warned[1]
    name, note = machine.ended[0]
    assert name == "k7qm2"
    assert note.endswith("as /etc/andon/policy.toml says")
    assert machine.at >= ALLOWED


def test_one_use_begins_everything_anew() -> None:
    machine = Machine(policy(), claim(lease(0)))
    for at in range(0, 3590, 10):
        machine.look(at)
    machine.look(3595, gpu(0, processes=[BUSY]))
    for at in range(3600, 6000, 10):
        machine.look(at)
    assert machine.ended == []
    assert len(machine.warned) == 3


def test_without_a_policy_or_somebody_who_takes_the_warning_nothing_ends() -> None:
    for machine in (
        Machine(NO_POLICY, claim(lease(0))),
        Machine(policy(), claim(lease(0)), heard=False),
        Machine(policy(), claim(lease(0, job=True))),
        Machine(policy(), claim(lease(0, simulated=True))),
    ):
        for at in range(0, 20_000, 100):
            machine.look(at)
        assert machine.ended == []


def test_a_book_that_cannot_be_read_forgets_everything() -> None:
    machine = Machine(policy(), claim(lease(0)))
    for at in range(0, 3590, 10):
        machine.page_known = at != 3000
        machine.look(at)
    machine.look(3700)
    assert machine.ended == []


def test_the_policy_has_a_section_of_its_own_for_a_user() -> None:
    text = 'release_idle_after = "4h"\n[users.ada]\nrelease_idle_after = "unlimited"\n'
    found = policy_from(text, "p")
    assert found.limits_of("bob", 1).release_idle_after == 4 * 3600
    assert found.limits_of("ada", 2).release_idle_after is None
    assert "4 h idle" in found.everyone.text
