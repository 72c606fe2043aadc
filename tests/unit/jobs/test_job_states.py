"""How jobs stand: tables of what lies in a folder, and properties."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from andon.errors import Conflict, Gone, Invalid, Unavailable
from andon.jobs.rules.naming import NameRule, meant, one_meant, parse_array
from andon.jobs.rules.order import in_order, place_before, place_first, place_last
from andon.jobs.rules.retention import too_old
from andon.jobs.rules.states import (
    JobStatus,
    has_work,
    job_statuses,
    lasting_status,
    left_devices,
    own_status,
)
from andon.jobs.rules.views import view_of
from andon.jobs.rules.waiting import insufficient, request_of, waited_seconds
from andon.jobs.scan import StatusCache
from andon.model.job.device_request import DeviceRequest
from andon.model.job.facts import (
    AttemptClaim,
    AttemptEnd,
    AttemptFacts,
    AttemptVerdict,
    EndReason,
    Holdup,
    JobFacts,
    JobNote,
    JobState,
)
from andon.model.job.spec import ArrayPlace, JobSpec
from andon.units import GIB
from tests.support.sharing_parts import gpu

AT = 1_000_000.0
CLAIM = AttemptClaim(10, 1, "boot", 11, 2, AT - 50)


def spec(number: int = 1, **more: Any) -> JobSpec:
    return JobSpec(number, "train", ("true",), "/", DeviceRequest(), AT - 100, **more)


def job(number: int = 1, *attempts: AttemptFacts, **more: Any) -> JobFacts:
    own = {
        name: more.pop(name)
        for name in ("held", "cancelled", "again", "expired", "order")
        if name in more
    }
    return JobFacts(spec(number, **more), attempts=attempts, **own)


def ended(
    attempt: int = 1, code: int = 0, reason: EndReason = EndReason.EXITED, oom: bool = False
) -> AttemptFacts:
    end = AttemptEnd(reason, AT - 50, AT - 10, 40.0, code)
    verdict = AttemptVerdict("failed", "exit code 1", oom, 70 * GIB)
    return AttemptFacts(attempt, CLAIM, end=end, verdict=verdict)


RUNNING = AttemptFacts(1, CLAIM, locked=True)
ORPHAN = AttemptFacts(1, CLAIM, alive=True)
LOST = AttemptFacts(1, CLAIM)


def test_a_dispatcher_is_needed_for_what_runs_or_could_start() -> None:
    rows = {
        (JobState.RUNNING, True): True,
        (JobState.WAITING, False): True,
        (JobState.WAITING, True): False,
        (JobState.LATER, False): True,
        (JobState.HELD, False): False,
        (JobState.LOST, False): False,
    }
    found = {row: has_work([JobStatus(row[0])], row[1]) for row in rows}
    assert found == rows


def note(attempt: int = 1) -> JobNote:
    return JobNote(attempt, AT, "ada")


TABLE: list[tuple[str, JobFacts, JobState, int]] = [
    ("nothing has happened", job(), JobState.WAITING, 1),
    ("held", job(held=True), JobState.HELD, 1),
    ("begins later", job(begin_at=AT + 1), JobState.LATER, 1),
    ("its time has come", job(begin_at=AT - 1), JobState.WAITING, 1),
    ("cancelled before it began", job(cancelled=note()), JobState.CANCELLED, 1),
    ("waited too long", job(expired=note()), JobState.FAILED, 1),
    ("its supervisor lives", job(1, RUNNING), JobState.RUNNING, 1),
    ("only its command lives", job(1, ORPHAN), JobState.RUNNING, 1),
    ("held while it runs", job(1, RUNNING, held=True), JobState.RUNNING, 1),
    ("neither lives", job(1, LOST), JobState.LOST, 1),
    ("lost, and again by itself", job(1, LOST, retry_lost=True), JobState.WAITING, 2),
    ("lost too often", job(1, *(replace(LOST, number=n) for n in range(1, 12)), retry_lost=True),
     JobState.LOST, 11),
    ("lost after it was cancelled", job(1, LOST, retry_lost=True, cancelled=note()),
     JobState.CANCELLED, 1),
    ("well", job(1, ended()), JobState.SUCCEEDED, 1),
    ("badly", job(1, ended(code=3)), JobState.FAILED, 1),
    ("could not be started", job(1, ended(code=127, reason=EndReason.NOT_STARTED)),
     JobState.FAILED, 1),
    ("too long", job(1, ended(code=143, reason=EndReason.TIME_LIMIT)), JobState.TIMED_OUT, 1),
    ("too long, with a good code", job(1, ended(reason=EndReason.TIME_LIMIT)),
     JobState.TIMED_OUT, 1),
    ("cancelled while it ran", job(1, ended(code=143, reason=EndReason.CANCELLED),
     cancelled=note()), JobState.CANCELLED, 1),
    ("its lease was released", job(1, ended(code=143, reason=EndReason.RELEASED)),
     JobState.CANCELLED, 1),
    ("badly, with a retry", job(1, ended(code=3), retries=1), JobState.WAITING, 2),
    ("badly twice, with a retry", job(1, ended(1, 3), ended(2, 3), retries=1),
     JobState.FAILED, 2),
    ("badly, then well", job(1, ended(1, 3), ended(2), retries=1), JobState.SUCCEEDED, 2),
    ("no retry after a cancel", job(1, ended(code=3), retries=5, cancelled=note()),
     JobState.FAILED, 1),
    ("a cancelled retry", job(1, ended(code=3), retries=5, cancelled=note(2)),
     JobState.CANCELLED, 2),
    ("out of memory, with a retry for that", job(1, ended(code=1, oom=True), retry_oom=1),
     JobState.WAITING, 2),
    ("out of memory twice", job(1, ended(1, 1, oom=True), ended(2, 1, oom=True), retry_oom=1),
     JobState.FAILED, 2),
    ("out of memory, without a retry for that", job(1, ended(code=1), retry_oom=1),
     JobState.FAILED, 1),
    ("asked for again", job(1, ended(), again=note(2)), JobState.WAITING, 2),
    ("asked for again while it runs", job(1, RUNNING, again=note(2)), JobState.RUNNING, 1),
    ("asked for again after a cancel", job(cancelled=note(1), again=note(2)), JobState.WAITING, 2),
    ("a person's retry brings its retries back",
     job(1, ended(1, 3), ended(2, 3), ended(3, 3), retries=1, again=note(3)), JobState.WAITING, 4),
]  # fmt: skip


def test_every_folder_means_one_state() -> None:
    wrong = []
    for words, facts, state, attempt in TABLE:
        found = job_statuses([facts], AT)[1]
        if (found.state, found.attempt) != (state, attempt):
            wrong.append(f"{words}: {found}")
    assert not wrong, wrong


def after(state: JobFacts, **more: Any) -> str:
    found = job_statuses([state, job(2, **more)], AT)[2]
    return f"{found.state} {'ready' if found.is_ready else found.reason}"


def test_a_job_that_was_requeued_leaves_its_devices_and_says_where_it_could_not() -> None:
    on = replace(CLAIM, devices=("GPU-a", "GPU-b"), labels=("0", "1"))
    first = replace(ended(code=143, reason=EndReason.REQUEUED), claim=on)
    assert left_devices(first) == {"GPU-a", "GPU-b"}
    assert left_devices(ended(code=143)) == left_devices(None) == frozenset()
    second = AttemptFacts(2, replace(CLAIM, devices=("GPU-b", "GPU-c")), locked=True)
    second = replace(second, claim=replace(second.claim, labels=("1", "2")))
    again = job(1, first, second, again=note(2))
    assert own_status(again, AT).reason == "again on GPU 1: no other can be used"
    away = replace(second, claim=replace(second.claim, devices=("GPU-c",), labels=("2",)))
    assert own_status(job(1, first, away, again=note(2)), AT).reason is None
    going = job(1, RUNNING, again=note(2))
    assert own_status(going, AT).reason == "being put back into the queue"
    waits = view_of(
        job(1, first, again=note(2)), JobStatus(JobState.WAITING, 2), 1, Holdup("w", AT)
    )
    assert waits.reason == "w; not on GPU 0, 1, which it left"


def test_a_job_waits_for_others_and_says_for_which() -> None:
    assert after(job(1, RUNNING), after=(1,)) == "waiting after job 1 (running)"
    assert after(job(1, ended()), after=(1,)) == "waiting ready"
    assert after(job(1, ended(code=2)), after=(1,)).startswith(
        "cancelled job 1, which it waits for"
    )
    assert after(job(1, ended(code=2)), after_any=(1,)) == "waiting ready"
    assert after(job(1, ended(code=2), retries=1), after=(1,)) == "waiting after job 1 (waiting)"
    assert after(job(1), after=(7,)).startswith("cancelled job 7")


def test_one_that_can_never_start_takes_those_behind_it_along_until_it_is_retried() -> None:
    jobs = [job(1, ended(code=2)), job(2, after=(1,)), job(3, after=(2,))]
    assert job_statuses(jobs, AT)[3].state is JobState.CANCELLED
    jobs[0] = replace(jobs[0], again=note(2))
    assert job_statuses(jobs, AT)[3].state is JobState.WAITING


def test_so_many_of_an_array_at_once() -> None:
    jobs = [job(n, array=ArrayPlace(1, n - 1, 4, 2)) for n in range(1, 5)]
    jobs[0] = replace(jobs[0], attempts=(RUNNING,))
    found = job_statuses(jobs, AT)
    assert [one.is_ready for one in found.values()] == [False, True, False, False]
    assert found[3].reason == "2 of array 1 may run at once"


def test_a_paused_queue_starts_nothing_and_lets_run_what_runs() -> None:
    found = job_statuses([job(1), job(2, RUNNING)], AT, paused=True)
    assert not found[1].is_ready
    assert found[2].state is JobState.RUNNING


facts_of_any_job = st.builds(
    lambda held, cancelled, attempts, retries, lost, again: job(
        1,
        *(replace(one, number=n) for n, one in enumerate(attempts, start=1)),
        held=held,
        cancelled=None if cancelled is None else note(cancelled),
        again=None if again is None else note(again),
        retries=retries,
        retry_lost=lost,
    ),
    st.booleans(),
    st.none() | st.integers(1, 6),
    st.lists(st.sampled_from([ended(), ended(code=1), ended(code=1, oom=True), LOST]), max_size=5),
    st.integers(0, 3),
    st.booleans(),
    st.none() | st.integers(1, 6),
)


@given(facts_of_any_job)
def test_no_attempt_is_ever_started_twice(facts: JobFacts) -> None:
    found = job_statuses([facts], AT)[1]
    if found.state is JobState.WAITING:
        assert found.attempt > len(facts.attempts)


@given(st.lists(facts_of_any_job, max_size=6), st.booleans())
def test_a_status_that_lasts_can_be_kept_and_changes_nothing(
    drawn: list[JobFacts], paused: bool
) -> None:
    jobs = {
        n: replace(one, spec=replace(one.spec, number=n, after=(n - 1,) if n % 3 == 0 else ()))
        for n, one in enumerate((job(), *drawn), start=1)
    }
    told = {n: kept for n, one in jobs.items() if (kept := lasting_status(one)) is not None}
    left = [one for n, one in jobs.items() if n not in told]
    whole = job_statuses(jobs.values(), AT, paused)
    assert 1 in told
    assert list(job_statuses(left, AT, paused, told).items()) == list(whole.items())
    judge = StatusCache()
    assert judge.judge(jobs, AT, paused) == judge.judge(jobs, AT, paused) == whole
    jobs[1] = job(1, ended())  # the first of them ends
    assert judge.judge(jobs, AT, paused) == job_statuses(jobs.values(), AT, paused)


@given(facts_of_any_job)
def test_what_is_cancelled_never_starts(facts: JobFacts) -> None:
    found = job_statuses([replace(facts, cancelled=note(100))], AT)[1]
    assert found.state.is_settled


@given(st.lists(st.integers(-3, 3), min_size=2, max_size=8), st.data())
def test_a_job_is_moved_to_where_it_should_be(priorities: list[int], data: st.DataObject) -> None:
    jobs = [
        replace(job(n), spec=replace(spec(n), request=DeviceRequest(priority=0)))
        for n in range(1, len(priorities) + 1)
    ]
    moved, target = data.draw(st.permutations(range(len(jobs))))[:2]
    others = [one for one in jobs if one is not jobs[moved]]
    first = in_order([*others, replace(jobs[moved], order=place_first(others))])
    assert first[0].spec.number == moved + 1
    last = in_order([*others, replace(jobs[moved], order=place_last(others))])
    assert last[-1].spec.number == moved + 1
    before = in_order([*others, replace(jobs[moved], order=place_before(others, target + 1))])
    numbers = [one.spec.number for one in before]
    assert numbers.index(moved + 1) == numbers.index(target + 1) - 1


def test_priority_comes_before_the_place() -> None:
    low, high = job(1), job(2)
    high = replace(high, spec=replace(high.spec, request=DeviceRequest(priority=5)))
    assert [one.spec.number for one in in_order([low, high])] == [2, 1]


def test_words_mean_jobs() -> None:
    jobs = {
        n: job(n, array=ArrayPlace(2, n - 2, 2)) if n in (2, 3) else job(n) for n in (1, 2, 3, 4)
    }
    table = {"1": (1,), "@": (4,), "2": (2, 3), "3": (3,), "2_0": (2,), "2_1": (3,)}
    assert {word: meant(word, jobs) for word in table} == table
    for word, kind in {
        "9": Gone,
        "2_7": Gone,
        "nobody": Invalid,
        "-1": Invalid,
        "": Invalid,
    }.items():
        with pytest.raises(kind):
            meant(word, jobs)
    with pytest.raises(Invalid, match="array of 2 jobs"):
        one_meant("2", jobs)


def test_a_name_means_its_job_the_newest_of_several_or_none_where_that_would_be_wrong() -> None:
    jobs = {n: job(n) for n in (1, 2, 3)} | {
        n: job(n, array=ArrayPlace(4, n - 4, 2)) for n in (4, 5)
    }
    names = {1: "once", 2: "twice", 3: "twice", 4: "both", 5: "both"}
    jobs = {n: replace(one, spec=replace(one.spec, name=names[n])) for n, one in jobs.items()}
    said: list[str] = []
    rule = NameRule(said.append)
    table = {"once": (1,), "twice": (3,), "both": (4, 5)}
    assert {word: meant(word, jobs, rule) for word in table} == table
    assert said == ["job 3 is the newest of 2 called twice: 3, 2"]
    with pytest.raises(Conflict, match="2 jobs are called 'twice'") as refused:
        meant("twice", jobs, NameRule(only_one=True))
    assert refused.value.hint.endswith("the newest first: 3, 2")
    assert meant("twice", jobs, NameRule(only_one=True, fits=lambda n: n == 2)) == (2,)
    assert meant("both", jobs, NameRule(only_one=True)) == (4, 5)
    numbered = {7: replace(jobs[1], spec=replace(jobs[1].spec, number=7, name="12"))}
    assert meant("12", numbered) == (7,)  # where no job has that number


def test_arrays_are_parsed() -> None:
    assert parse_array("0-3") == ((0, 1, 2, 3), None)
    assert parse_array("5-6%4") == ((5, 6), 4)
    assert parse_array("7") == ((7,), None)
    for text in ("", "3-1", "a", "0-99999999", "0-3%0", "0-10000"):
        with pytest.raises(Invalid):
            parse_array(text)


def test_a_wait_is_counted_on_a_clock_that_is_never_set() -> None:
    facts = job(1, boot="b", submitted_boot_seconds=500.0)
    day = 86_400.0
    for jump in (-day, 0.0, day):
        assert waited_seconds(facts, AT + jump, "b", 530.0) == 30.0
    assert waited_seconds(facts, AT, "after a restart", 3.0) == 100.0
    assert waited_seconds(facts, AT, "b", 530.0, ready_at=AT - 7) == 7.0


def test_the_error_of_a_wait_that_was_too_long() -> None:
    assert insufficient(300.0, "2 GPUs requested") == (
        "Insufficient GPUs after waiting 5 min: 2 GPUs requested"
    )


def test_after_running_out_of_memory_more_is_asked_for_where_there_is_more() -> None:
    facts, larger = job(1, ended(code=1, oom=True), retry_oom=1), [gpu(total=141 * GIB)]
    assert 70 * GIB < (request_of(facts, larger, {}).memory_bytes or 0) < 72 * GIB
    assert request_of(job(1, ended(code=1), retry_oom=1), larger, {}).memory_bytes is None


def test_a_retry_that_no_device_here_can_meet_says_so_with_the_numbers() -> None:
    facts = job(1, ended(code=1, oom=True), retry_oom=1)
    with pytest.raises(Unavailable) as refused:
        request_of(facts, [gpu(n, 0.1, total=70 * GIB) for n in range(4)], {})
    assert "cannot retry with more memory: it had 70.0 GiB" in refused.value.reason
    assert "no GPU here has more than 70.0 GiB" in refused.value.reason


def test_only_what_ended_long_ago_and_is_no_longer_needed_is_too_old() -> None:
    day = 86_400.0
    jobs = {
        1: job(1, ended()),
        2: job(2, ended(code=1)),
        3: job(3, cancelled=note()),
        4: job(4),
        5: job(5, RUNNING),
        6: job(6, ended()),
        7: job(7, after=(6,), held=True),
    }
    known = job_statuses(jobs.values(), AT)
    assert too_old(jobs, known, AT + 2 * day, day) == [1, 2, 3]
    assert too_old(jobs, known, AT + day - 5, day) == [1, 2], "it was cancelled later"
    assert too_old(jobs, known, AT, day) == []
