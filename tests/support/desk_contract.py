"""The contract of every desk of jobs: the queue, a cluster, and both together."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from andon.errors import Gone, Invalid
from andon.jobs.desk import JobDesk
from andon.jobs.rules.able import NEEDS, refuse
from andon.jobs.submitting import local_spec, new_submission
from andon.model.job.desk import Able, Accepted, JobAct, Submission
from andon.model.job.device_request import DeviceRequest
from andon.model.job.facts import JobState, JobView
from tests.support.waiting import wait_for

UNKNOWN = "999999"
JobOf = Callable[..., Submission]


def job(script: str = "exit 0", name: str = "desk", gpus: int = 1, **more: Any) -> Submission:
    names = ("retries", "unique", "group", "params")
    fields: dict[str, Any] = {key: more.pop(key) for key in names if key in more}
    spec = local_spec(
        ("sh", "-c", script), DeviceRequest(least=gpus, most=gpus), name=name, git=False,
        folder="/", environment={}, **fields,
    )  # fmt: skip
    return new_submission(spec, **more)


def need(desk: JobDesk, able: Able) -> None:
    if able not in desk.able:
        pytest.skip(f"{desk.name} refuses it: {able}")


class DeskContract:
    """Subclass it with a fixture `desk`, on which a job of one GPU waits or runs until it is
    cancelled, and `word`, which makes the name of an id. One that cannot let a job come after
    another says how many GPUs `one_node` alone has."""

    one_node = 0

    def word(self, text: str) -> str:
        return text

    def one(self, desk: JobDesk, label: str) -> JobView:
        (found,), errors = desk.find([label])
        assert not errors
        return found

    def two(self, desk: JobDesk) -> Sequence[Accepted]:
        """Submits two jobs; the second cannot begin before the first has ended."""
        if Able.AFTER in desk.able:
            return desk.submit([job("sleep 99", "prepare"), job(after=("prepare",))])
        return desk.submit([job("sleep 99", gpus=self.one_node) for _ in range(2)])

    def test_what_was_submitted_is_listed_and_found(self, desk: JobDesk) -> None:
        first, second = desk.submit([job(), job(name="other", group="g", params={"n": 1})])
        assert first.label != second.label
        assert first.is_new
        assert {first.label, second.label} <= {one.label for one in desk.listing().views}
        view = self.one(desk, second.label)
        assert (view.name, view.group, view.params) == ("other", "g", {"n": "1"})
        assert [one.label for one in desk.find([first.label, second.label, first.label]).views] == [
            first.label, second.label,
        ]  # fmt: skip

    def test_a_dry_run_submits_nothing(self, desk: JobDesk) -> None:
        before = len(desk.listing().views)
        (found,) = desk.submit([job()], dry=True)
        assert found.label == ""
        assert bool(found.preview) == (Able.PREVIEW in desk.able)
        assert len(desk.listing().views) == before

    def test_an_array_is_one_word(self, desk: JobDesk) -> None:
        need(desk, Able.ARRAY)
        (array,) = desk.submit([job("sleep 99", indices=(3, 4, 7))])
        assert [one.array_index for one in desk.find([array.label]).views] == [3, 4, 7]
        outcomes = desk.act(JobAct.CANCEL, [array.label])
        assert all(one.error is None and one.text for one in outcomes)
        wait_for(
            lambda: {one.state for one in desk.find([array.label]).views} == {JobState.CANCELLED},
            what="the end of all of them",
        )

    def test_a_later_job_may_name_an_earlier_one(self, desk: JobDesk) -> None:
        need(desk, Able.AFTER)
        first, second = desk.submit([job("sleep 99", "prepare"), job(after=("prepare",))])
        view = self.one(desk, second.label)
        assert view.state in (JobState.WAITING, JobState.LATER)
        assert any(first.label.rpartition(":")[2] in one.text for one in desk.reasons(view.label))

    def test_a_sweep_may_come_after_a_job_of_its_own_name(self, desk: JobDesk) -> None:
        need(desk, Able.AFTER)
        (first,) = desk.submit([job("sleep 99", "tune")])
        word = first.label if ":" in first.label else "tune"
        jobs = [job(name="tune", group="g", params={"n": n}, after=(word,)) for n in (1, 2)]
        for made in desk.submit(jobs):
            view = self.one(desk, made.label)
            assert view.started is None
            assert any(
                first.label.rpartition(":")[2] in one.text for one in desk.reasons(view.label)
            )

    def test_a_job_may_come_after_all_of_a_sweep(self, desk: JobDesk) -> None:
        need(desk, Able.AFTER)
        swept = [job("sleep 99", "swept", group="swept", params={"n": n}) for n in (1, 2)]
        first, second, last = desk.submit([*swept, job(name="last", after_any=("swept",))])
        desk.act(JobAct.CANCEL, [second.label])
        id_ = first.label.rpartition(":")[2]
        wait_for(lambda: any(id_ in one.text for one in desk.reasons(last.label)), what="its turn")
        assert self.one(desk, last.label).started is None

    def test_a_job_that_is_cancelled_stays_so(self, desk: JobDesk) -> None:
        (made,) = desk.submit([job("sleep 99")])
        for _ in range(2):
            (outcome,) = desk.act(JobAct.CANCEL, [made.label])
            assert outcome.error is None
            wait_for(lambda: self.one(desk, made.label).state is JobState.CANCELLED, what="its end")

    def test_an_unknown_word_keeps_no_other_from_being_found(self, desk: JobDesk) -> None:
        (made,) = desk.submit([job()])
        found, errors = desk.find([self.word(UNKNOWN), made.label])
        assert [one.label for one in found] == [made.label]
        assert [type(one) for one in errors] == [Gone]
        outcomes = desk.act(JobAct.CANCEL, [self.word(UNKNOWN)])
        assert [type(one.error) for one in outcomes] == [Gone]
        for ask in (desk.reasons, lambda word: desk.log(word, None, 100)):
            with pytest.raises(Gone):
                ask(self.word(UNKNOWN))

    def test_what_has_not_begun_has_no_output(self, desk: JobDesk) -> None:
        first, second = self.two(desk)
        part = desk.log(second.label, None, 100)
        assert (part.start, part.end, part.text, part.ended) == (0, 0, "", False)
        desk.act(JobAct.CANCEL, [first.label, second.label])

    @pytest.mark.parametrize("act", sorted(set(JobAct) - {JobAct.CANCEL}))
    def test_what_a_desk_cannot_do_to_a_job_is_an_error_of_that_job(
        self, desk: JobDesk, act: JobAct
    ) -> None:
        labels = [one.label for one in desk.submit([job("sleep 99"), job("sleep 98")])]
        outcomes = desk.act(act, labels)
        assert [one.label for one in outcomes] == labels
        if Able.QUEUED not in desk.able:
            assert all(isinstance(one.error, Invalid) for one in outcomes)


NEEDING: dict[Able, dict[str, Any]] = {
    Able.RETRIES: {"retries": 1}, Able.UNIQUE: {"unique": True}, Able.ARRAY: {"indices": (1, 2)},
    Able.AFTER: {"after": ("12",)}, Able.PER_GPU: {"per_gpu": 1},
    Able.ENGINE_OPTIONS: {"options": ("--x",)},
}  # fmt: skip


class RefusingContract:
    """Subclass it with a fixture `desk` that takes submissions."""

    @pytest.mark.parametrize("able", NEEDING)
    def test_what_a_desk_cannot_do_is_refused_in_a_sentence(self, desk: object, able: Able) -> None:
        asked = job(**NEEDING[able])
        if able in desk.able:  # type: ignore[attr-defined]
            refuse(desk, [asked])  # type: ignore[arg-type]
            return
        with pytest.raises(Invalid) as refused:
            refuse(desk, [asked])  # type: ignore[arg-type]
        assert NEEDS[able][0] in refused.value.reason
        assert refused.value.hint
