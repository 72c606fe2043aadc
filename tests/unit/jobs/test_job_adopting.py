"""A container that lost its supervisor: which processes are ended before another one takes it."""

from pathlib import Path

import pytest

from andon.jobs import adopting
from andon.jobs.folder import JobsFolder
from andon.jobs.launching import DispatcherSettings
from andon.model.job.device_request import DeviceRequest
from andon.model.job.facts import AttemptClaim, AttemptFacts, JobFacts
from andon.model.job.spec import JobSpec
from tests.support.replaced import answers

AT = 1_790_000_000.0


@pytest.mark.parametrize(("group", "asked"), [(4242, [4242]), (1, []), (0, []), (-1, [])])
def test_a_claim_without_a_command_ends_nobodys_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: int, asked: list[int]
) -> None:
    """Session 0 has the kernel's threads, and in a container everyone who came from outside."""
    sessions: list[int] = []

    def members(session: int) -> tuple[()]:
        sessions.append(session)
        return ()

    monkeypatch.setattr(adopting, "session_members", members)
    answers(monkeypatch, adopting, "container_lives", True)
    claim = AttemptClaim(pid=0, started_ticks=0, boot=None, group=group, group_ticks=0, at=AT)
    spec = JobSpec(1, "x", ("true",), "/", DeviceRequest(), AT, container={"image": "x"})
    facts = JobFacts(spec, attempts=(AttemptFacts(1, claim, alive=True),))
    found = adopting.ContainerAdopter(
        JobsFolder(tmp_path), DispatcherSettings(1000, 0.0, 1.0)
    ).needs(facts)
    assert sessions == asked
    assert found is facts.last
