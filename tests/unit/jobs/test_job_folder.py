"""The folder of jobs: written whole, read once, and what is torn or foreign is passed over."""

import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from andon.errors import AndonError, Gone, Invalid, Unavailable
from andon.jobs.acts import CancelOutcome, cancel
from andon.jobs.folder import JobsFolder
from andon.jobs.index import facts_from_row, index_text, indexed, read_index
from andon.jobs.rules.order import order_key
from andon.jobs.rules.states import job_statuses
from andon.jobs.scan import Scanner
from andon.model.codec import Wrong, to_json
from andon.model.job.device_request import DeviceRequest, PlacementOrder
from andon.model.job.facts import (
    AttemptClaim,
    AttemptEnd,
    AttemptFacts,
    AttemptVerdict,
    EndReason,
    JobFacts,
    JobNote,
    JobState,
    dumps,
    loads,
)
from andon.model.job.spec import (
    ArrayPlace,
    Checkpoint,
    JobSpec,
    NotifyWhen,
    spec_from_json,
    spec_to_json,
)
from tests.support.counting import python_calls
from tests.support.noticed import before, noticed

AT = 1_790_000_000.0
FULL = JobSpec(
    7, "train", ("python", "a\udc80b", ""), "/home/\udcff", DeviceRequest(1, 4, 1 << 30, True,
    ("H100",), ("quiet",), ("0",), ("1",), ("2",), PlacementOrder.PACK, False, True, -3, True),
    AT, "ada", 0o077, {"A": "x\udc80", "TOKEN": "secret"}, ("A",), {"CUDA_VISIBLE_DEVICES": "1"}, 4,
    "idle", 3600.0, 0.0, 5.0, (1, 2), (3,), AT + 9, ArrayPlace(7, 0, 3, 1), 2, True, 1,
    Checkpoint("USR2", 1.5), NotifyWhen.FAIL, True, "boot", 12.5, "f" * 40, ("paper",),
    {"image": "x"}, True,
)  # fmt: skip
CLAIM = AttemptClaim(5, 6, "boot", 7, 8, AT, "k7qm2", ("GPU-1",), ("1",), "bcdfghjk", "/r", "vm")
ENDED = AttemptFacts(
    1, CLAIM, end=AttemptEnd(EndReason.CANCELLED, AT, AT + 1, 1.0, 143, 15, "run", "ada", 1, "why"),
    verdict=AttemptVerdict("stopped", "stopped on request", True, 9),
)  # fmt: skip
WHOLE = JobFacts(
    replace(FULL, environment={}), True, JobNote(1, AT, "ada", "x"), JobNote(2, AT), JobNote(3, AT),
    -0.5, (ENDED, replace(ENDED, number=2, end=None)),
)  # fmt: skip


def plain(number: int = 0, **more: Any) -> JobSpec:
    return JobSpec(number, "x", ("true",), "/", DeviceRequest(), AT, **more)


@pytest.fixture
def folder(tmp_path: Path) -> JobsFolder:
    return JobsFolder(tmp_path)


def test_a_job_is_read_as_it_was_written() -> None:
    text = dumps(spec_to_json(FULL))
    assert spec_from_json(loads(text)) == FULL
    assert text.isascii()


@given(st.data())
def test_a_damaged_description_is_refused_and_never_fails_otherwise(data: st.DataObject) -> None:
    value: dict[str, Any] = json.loads(dumps(spec_to_json(FULL)))
    name = data.draw(st.sampled_from(sorted(value)))
    strange: st.SearchStrategy[Any] = st.sampled_from([None, True, -1, 1 << 70, "", [], {}, [{}]])
    value[name] = data.draw(strange | st.floats() | st.text(max_size=3))
    with suppress(Wrong):
        spec_from_json(value)


def test_the_index_keeps_everything_but_the_environment() -> None:
    rows = read_index(index_text({7: indexed(123, WHOLE)}).encode())
    assert rows == {7: indexed(123, WHOLE)}
    assert facts_from_row(rows[7].row) == WHOLE


def test_a_damaged_index_counts_as_none() -> None:
    text = index_text({7: indexed(123, WHOLE)}).encode()
    assert read_index(text)
    for place in range(0, len(text), 40):
        damaged = text[:place] + b"0" + text[place + 1 :]
        if damaged != text:
            assert read_index(damaged) == {}, place
    assert read_index(b"") == read_index(b"{}\n[]") == read_index(text[:-30]) == {}
    deep = b"[" * 100_000
    assert read_index(deep) == {}
    assert facts_from_row(deep.decode()) is None


@contextmanager
def aged(folder: JobsFolder) -> Iterator[None]:
    """As if nothing had changed for a while."""
    yield
    for path in folder.path.iterdir():
        if path.is_dir():
            os.utime(path, ns=(1, 1))


@pytest.mark.slow
def test_numbers_are_given_once(folder: JobsFolder) -> None:
    taken: list[int] = []

    def take() -> None:
        taken.extend(folder.submit([plain()])[0].number for _ in range(50))

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == list(range(1, 201))
    (folder.path / "counter").unlink()
    assert folder.submit([plain()])[0].number == 201
    (folder.path / "counter").write_text("nonsense")
    assert folder.submit([plain()])[0].number == 202


def test_a_large_array_writes_the_counter_once(folder: JobsFolder) -> None:
    """Each time costs a write to the disk: ext4 makes a truncated file last."""
    with noticed("open") as opened:
        folder.submit(plain(array=ArrayPlace(0, index, 9)) for index in range(9))
    truncated = [path for path, _, flags in opened if flags & os.O_TRUNC]
    assert truncated == [str(folder.path / "counter")]
    assert (folder.path / "counter").read_text() == "10\n"
    (folder.path / "counter").write_text("50\n")  # by another, while an array was written
    folder._count_from(20)
    assert (folder.path / "counter").read_text() == "50\n"


def test_many_notes_are_settled_together(folder: JobsFolder) -> None:
    folder.submit([plain(), plain()])
    known = job_statuses(Scanner(folder).scan().values(), AT)
    folders = [str(folder.job(number)) for number in (1, 2)]
    with noticed("open") as opened:  # a folder is opened to be written to the disk
        for number, facts in Scanner(folder).scan().items():
            assert cancel(folder, facts, known[number], settle=False) is CancelOutcome.CANCELLED
    assert not {path for path, *_ in opened} & {*folders}
    with noticed("open") as opened:
        folder.settle((1, 2))
    assert [path for path, *_ in opened] == folders


def test_an_array_has_the_number_of_its_first_job(folder: JobsFolder) -> None:
    folder.submit([plain()])
    made = folder.submit(plain(array=ArrayPlace(0, index, 2)) for index in (5, 6))
    assert [one.label for one in made] == ["2_5", "2_6"]
    assert [facts.spec.label for facts in Scanner(folder).scan().values()] == ["1", "2_5", "2_6"]


def test_a_submission_that_fails_leaves_nothing(folder: JobsFolder) -> None:
    def specs() -> Iterator[JobSpec]:
        yield plain()
        raise OSError(28, "No space left on device")

    with pytest.raises(Unavailable, match="No space left on device"):
        folder.submit(specs())
    assert Scanner(folder).scan() == {}
    assert not (folder.path / "1").exists()


@pytest.mark.process
def test_a_submission_that_is_killed_has_queued_nothing(folder: JobsFolder) -> None:
    """No element of an array has its name before all of them are on the disk."""
    seen: list[int] = []

    def specs() -> Iterator[JobSpec]:
        for index in range(5):
            seen.append(len(Scanner(folder).scan()))
            yield plain(array=ArrayPlace(0, index, 5, None))

    assert len(folder.submit(specs())) == 5
    assert seen == [0, 0, 0, 0, 0]
    assert len(Scanner(folder).scan()) == 5

    def killed() -> Iterator[JobSpec]:
        yield from (plain(array=ArrayPlace(0, index, 3, None)) for index in (0, 1))
        os.kill(os.getpid(), signal.SIGKILL)

    if (child := os.fork()) == 0:
        folder.submit(killed())
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    assert Scanner(folder).scan().keys() == {1, 2, 3, 4, 5}
    folder.sweep(1.0)
    assert folder.job(6).exists()  # a submission may still go on
    folder.sweep(folder.path.stat().st_mtime + 1.0)
    assert sorted(int(one.name) for one in folder.path.glob("[0-9]*")) == [1, 2, 3, 4, 5]


def test_only_the_owner_can_read_a_job(folder: JobsFolder) -> None:
    folder.submit([plain(environment={"TOKEN": "secret"})])
    assert (folder.job(1) / "job.json").stat().st_mode & 0o777 == 0o600
    assert folder.spec(1).environment == {"TOKEN": "secret"}
    with pytest.raises(Gone):
        folder.spec(2)


def test_what_is_torn_or_foreign_is_named_and_passed_over(folder: JobsFolder) -> None:
    folder.submit(plain() for _ in range(6))
    (folder.job(1) / "job.json").write_text('{"schema": "andon.job/1", "number"')
    (folder.job(2) / "job.json").write_text("[]")
    (folder.job(3) / "job.json").unlink()
    (folder.job(3) / "job.json").mkdir()
    (folder.job(4) / "cancelled").write_text("nonsense")
    (folder.job(5) / "attempt-1").mkdir()
    (folder.job(5) / "attempt-1" / "claim").write_text("{}")
    (folder.path / "007").mkdir()
    (folder.path / "notes").write_text("mine")
    scanner = Scanner(folder)
    found = scanner.scan()
    assert found.keys() == {4, 5, 6}
    assert found[4].cancelled is None
    (damaged,) = found[5].attempts  # it was claimed: nothing may claim it again
    assert (damaged.claim.pid, damaged.locked, damaged.alive) == (0, False, False)
    assert job_statuses([found[5]], AT)[5].state is JobState.LOST
    os.mkfifo(folder.path / "counter2")
    (folder.path / "counter2").rename(folder.path / "counter")
    assert folder.submit([plain()])[0].number == 7  # no pipe is waited for
    assert {str(Path(one).relative_to(folder.path)) for one in scanner.unread} == {
        "1/job.json", "2/job.json", "3/job.json", "4/cancelled", "5/attempt-1/claim",
    }  # fmt: skip


def test_a_second_scan_reads_only_what_changed(folder: JobsFolder) -> None:
    with aged(folder):
        folder.submit(plain() for _ in range(5))
    scanner = Scanner(folder)
    first = scanner.scan()
    third = str(folder.job(3) / "job.json")
    with noticed("open") as opened:
        assert scanner.scan() == first
    assert [path for path, *_ in opened if str(path).endswith("/job.json")] == []
    folder.small(3, "held", "")
    with noticed("open") as opened:
        assert scanner.scan()[3].held
    assert [path for path, *_ in opened if str(path).endswith("/job.json")] == [third]
    with aged(folder):
        scanner.save(0)
    os.utime(folder.job(3))
    with noticed("open") as opened:
        assert Scanner(folder).scan().keys() == first.keys()
    assert [path for path, *_ in opened if str(path).endswith("/job.json")] == [third]


def test_jobs_of_the_index_are_decoded_when_they_are_asked_for(folder: JobsFolder) -> None:
    with aged(folder):
        folder.submit(
            [plain(), replace(plain(), request=DeviceRequest(priority=5)), plain(begin_at=AT)]
        )
        folder.note(1, "cancelled", JobNote(1, AT, "ada"))
    scanner = Scanner(folder)
    read = scanner.scan()
    scanner.save(0)
    found = Scanner(folder).read()
    statuses = job_statuses(read.values(), AT + 1)
    keys = {number: order_key(facts) for number, facts in read.items()}

    def ask() -> None:
        assert found.statuses(AT + 1) == statuses
        assert found.order_keys() == keys

    assert python_calls(ask)["facts_from_row"] == 1  # the one that depends on the time
    assert dict(found) == read


def test_who_takes_over_an_attempt_is_its_supervisor_until_it_has_ended(folder: JobsFolder) -> None:
    folder.submit([plain()])
    attempt = folder.job(1) / "attempt-1"
    attempt.mkdir()
    (attempt / "claim").write_text(dumps(to_json(CLAIM)))
    (attempt / "container").write_text("c" * 64 + "\n")  # of an earlier boot: it does not live
    scanner, adopted = Scanner(folder, index=False), attempt / "adopted"
    for text, claim in (
        ('{"pid": 15, "start_ticks": 16, "group": 17', CLAIM),  # torn
        (
            '{"pid": 15, "start_ticks": 16, "group": 17, "group_ticks": 18}',
            replace(CLAIM, pid=15, started_ticks=16, group=17, group_ticks=18),
        ),
    ):
        adopted.write_text(text)
        assert scanner.again(1) == JobFacts(plain(1), attempts=(AttemptFacts(1, claim),))
    assert list(scanner.unread) == [str(adopted)]
    end = AttemptEnd(EndReason.EXITED, AT, AT + 1, 1.0, 0)
    (attempt / "end.json").write_text(dumps(to_json(end)))
    assert scanner.again(1) == JobFacts(plain(1), attempts=(AttemptFacts(1, CLAIM, end=end),))


def test_a_claim_that_comes_into_an_older_folder_is_seen(folder: JobsFolder) -> None:
    """On a full disk the folder of an attempt can be made, and its claim only later."""
    folder.submit([plain()])
    with aged(folder):
        (folder.job(1) / "attempt-1").mkdir()
    scanner = Scanner(folder)
    assert scanner.scan()[1].attempts == ()
    claim = dumps(to_json(CLAIM))
    with aged(folder):
        (folder.job(1) / "attempt-1" / "claim").write_text(claim)
    assert scanner.scan()[1].attempts[0].claim == CLAIM


def test_a_removed_job_is_gone_and_its_files_with_it(folder: JobsFolder) -> None:
    folder.submit([plain()])
    (folder.job(1) / "attempt-1").mkdir()
    (folder.job(1) / "attempt-1" / "output.log").write_text("x")
    folder.remove(1)
    assert not folder.job(1).exists()
    assert Scanner(folder).scan() == {}


def test_a_job_is_removed_while_its_verdict_is_written(folder: JobsFolder) -> None:
    folder.submit([plain()])
    attempt = folder.job(1) / "attempt-1"
    attempt.mkdir()
    with before("os.rmdir", lambda: (attempt / "verdict.json").write_text("{}")):
        folder.remove(1)
    assert not folder.job(1).exists()


def test_the_bell_rings_with_every_change(folder: JobsFolder) -> None:
    changed_at = [folder.changed_at()]
    for change in (
        lambda: folder.submit([plain()]),
        lambda: folder.small(1, "held", ""),
        lambda: folder.drop(1, "held"),
        folder.pause,
        folder.unpause,
        lambda: folder.remove(1),
    ):
        change()
        changed_at.append(folder.changed_at())
    assert len(set(changed_at)) == len(changed_at)


def test_a_file_that_cannot_be_deleted_is_one_line(folder: JobsFolder) -> None:
    folder.submit([plain()])
    for place in (folder.job(1) / "held", folder.path / "paused"):
        place.mkdir()  # as a file system that refuses it
    with pytest.raises(AndonError, match="cannot be written"):
        folder.drop(1, "held")
    with pytest.raises(AndonError, match="cannot be written"):
        folder.unpause()


@pytest.mark.parametrize(
    "wrong",
    [
        {"begin_at": 253_402_300_740.0},
        {"environment": {"A": "x\0y"}},
        {"environment": {f"A{n}": "x" * 100_000 for n in range(50)}},
        {"request": DeviceRequest(prefer=("\udcff",))},
        {"name": "x" * 5000},
    ],
    ids=["begin", "zero", "size", "text", "name"],
)
def test_a_job_that_could_not_be_read_again_is_refused(
    folder: JobsFolder, wrong: dict[str, Any]
) -> None:
    with pytest.raises(Invalid):
        folder.submit([replace(plain(), **wrong)])
    with pytest.raises(Invalid):
        folder.submit(replace(plain(array=ArrayPlace(0, n, 2)), **wrong) for n in (0, 1))
    assert Scanner(folder).scan() == {}
    assert [one.name for one in folder.path.iterdir() if one.is_dir()] == []
