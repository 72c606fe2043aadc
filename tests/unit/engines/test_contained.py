"""A command in a container: what came of it counts, also where the engine fails afterwards."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from andon.engines.containers import DockerEngine
from andon.errors import AndonError, Conflict, Unavailable
from andon.model.execution import ContainerOptions, CreatedWork, WorkEnd, WorkOrder
from andon.work.containers.rules.arguments import EngineFacts
from andon.work.containers.running import ContainedCommand, follow_container
from andon.work.launcher import CommandEnd


class Forgetful:
    """Runs a container to its end, and cannot remove it."""

    name = "docker"

    def __init__(self, end: WorkEnd) -> None:
        self._end, self.cleaned = end, 0

    def check(self, order: WorkOrder) -> None: ...

    def create(self, order: WorkOrder) -> CreatedWork:
        return CreatedWork("c0ffee", order.label, order.command[0])

    def client(self, work: CreatedWork) -> Sequence[str]:
        return ["docker", "logs"]

    def follow(self, work: CreatedWork, since: float) -> Sequence[str]:
        return ["docker", "logs"]

    def find(self, label: str) -> Sequence[CreatedWork]:
        return []

    def send(self, work: CreatedWork, number: int) -> None: ...

    def ended(self, work: CreatedWork) -> WorkEnd | None:
        return self._end

    def not_started(self, work: CreatedWork, stderr: str) -> AndonError:
        return Conflict(f"the command could not be started: {stderr}")

    def leftovers(self, living: frozenset[str]) -> Sequence[CreatedWork]:
        return []

    def clean(self, work: CreatedWork) -> None:
        self.cleaned += 1
        raise Unavailable("removal of container c0ffee is already in progress")


def followed(engine: Forgetful) -> tuple[CommandEnd, bool]:
    contained = ContainedCommand(engine, ContainerOptions("image"), ["true"])
    contained.create("k7qm2", (), {}, lambda identity: None)
    return follow_container(contained, lambda command: CommandEnd(0, None, 1.0))


def test_a_container_that_cannot_be_removed_has_ended_as_it_has() -> None:
    engine = Forgetful(WorkEnd(3))
    end, killed = followed(engine)
    assert (end.code, killed, engine.cleaned) == (3, False, 1)


def test_one_whose_end_is_not_known_is_removed_or_that_is_said() -> None:
    engine = Forgetful(WorkEnd(None, error="no such program"))
    with pytest.raises(Unavailable, match="already in progress") as raised:
        followed(engine)
    assert isinstance(raised.value.__context__, Conflict)


class Unreachable(DockerEngine):
    @property
    def engine(self) -> EngineFacts:
        raise Unavailable("the engine does not answer")


def test_an_engine_that_fails_at_once_leaves_no_home_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    order = WorkOrder(("true",), "/", "k7qm2", container=ContainerOptions("image"))
    with pytest.raises(Unavailable):
        Unreachable().create(order)
    assert list(tmp_path.iterdir()) == []
