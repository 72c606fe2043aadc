"""The jobs that a server shows: as new as they are, and an output in whole characters."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from andon.access.roles import Identity, Role
from andon.errors import Denied, Invalid
from andon.jobs.folder import CLAIM, JobsFolder
from andon.jobs.outputs import read_output
from andon.jobs.queue import Queue
from andon.jobs.queue_desk import QueueDesk
from andon.model.codec import to_json
from andon.model.job import facts
from andon.model.job.desk import JobAct
from andon.model.job.device_request import DeviceRequest
from andon.model.job.facts import AttemptClaim
from andon.model.job.spec import JobSpec
from andon.node.seen.jobs import LOG_BYTES, tail_after
from andon.node.watched.jobs import ServedJobs
from andon.runs.rules.matching import HIDDEN_NAME
from tests.support.seen_nodes import seen_node

SPEC = JobSpec(0, "x", ("true",), "/", DeviceRequest(), 1_790_000_000.0)


class Served:
    """A queue, and the server's view of it."""

    def __init__(self, path: Path) -> None:
        self.folder = JobsFolder(path)
        own = QueueDesk(lambda: Queue(self.folder), "", lambda _: None)
        self.all = ServedJobs(own, lambda: None, self.submit)
        self.jobs = seen_node(Identity(Role.OWNER), jobs=self.all).jobs

    def submit(self, document: dict[str, Any]) -> Sequence[int]:
        self.jobs.listed()  # another request, meanwhile
        return [self.folder.submit([SPEC])[0].number]


@pytest.fixture
def served(tmp_path: Path) -> Served:
    return Served(tmp_path)


def test_a_job_is_listed_as_soon_as_it_is_submitted(served: Served) -> None:
    numbers = served.jobs.submit_document({})
    assert [view.number for view in served.jobs.listed()[0].views] == list(numbers) == [1]


def test_the_right_to_submit_and_to_remove_is_not_left_to_those_who_ask(served: Served) -> None:
    user = Identity(Role.USER, 1, "ada")
    with pytest.raises(Denied):
        seen_node(user, jobs=served.all).jobs.submit_document({})
    served.folder.submit([SPEC])
    (outcome,) = served.jobs.act(JobAct.REMOVE, [1])
    assert isinstance(outcome.error, Invalid)
    assert [view.number for view in served.jobs.listed()[0].views] == [1]


def begun(served: Served) -> Path:
    """The output of a job whose first attempt has begun."""
    served.folder.submit([SPEC])
    attempt = served.folder.attempt(1, 1)
    attempt.mkdir()
    claim = to_json(AttemptClaim(5, 6, "boot", 7, 8, SPEC.submitted_at))
    (attempt / CLAIM).write_text(facts.dumps(claim))
    return served.folder.output(1, 1)


@pytest.mark.parametrize("start", [None, 3, 10_000_000])
def test_an_output_that_is_too_long_for_one_answer_begins_with_a_whole_line(
    served: Served, start: int | None
) -> None:
    line = "grüße €\n"
    begun(served).write_text(line * LOG_BYTES)
    part = tail_after(served.jobs.log(1, None, LOG_BYTES), start)
    assert part.text == line * (len(part.text) // len(line))
    assert part.end - part.start == len(part.text.encode())


def test_half_a_character_of_an_output_comes_with_the_next_part(tmp_path: Path) -> None:
    output, whole = tmp_path / "output", "grüße €\n".encode()
    text, start = "", 0
    for size in range(len(whole) + 1):
        output.write_bytes(whole[:size])
        part = tail_after(read_output(output, None, LOG_BYTES, ended=False), start)
        assert part.start == start
        text, start = text + part.text, part.end
    assert (text, start) == ("grüße €\n", len(whole))


def test_what_is_listed_for_live_events_is_what_the_caller_may_see(served: Served) -> None:
    served.folder.submit([SPEC])
    for who, shown in ((Identity(Role.OWNER), "true"), (Identity(), HIDDEN_NAME)):
        (view,) = seen_node(who, jobs=served.all).jobs.listed()[0].views
        assert view.command == shown
