"""The contract of every container engine, as a pytest suite.

class TestMyEngine(ContainerEngineContract):
    @pytest.fixture
    def engine(self):
        return MyEngine()

    def order(self, command, label):
        return WorkOrder(tuple(command), folder, label)

Commands are a POSIX shell's; the folder of an order is written by them and read by the tests.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from andon.errors import AndonError, Gone
from andon.model.execution import CreatedWork, WorkOrder
from andon.ports import ContainerEngine

PATIENCE_SECONDS = 60.0
STUBBORN = "trap '' TERM; echo ready; while true; do sleep 1; done"


class ContainerEngineContract:
    """Subclass it with a fixture `engine` and a method `order`."""

    def order(self, command: Sequence[str], label: str) -> WorkOrder:
        """An order for this command in a folder that both sides see."""
        raise NotImplementedError

    def test_the_client_passes_output_and_ends_with_the_command(
        self, engine: ContainerEngine
    ) -> None:
        script = "echo out; echo err >&2; exit 7"
        with self._created(engine, script) as (_, work):
            done = subprocess.run(
                engine.client(work), capture_output=True, text=True, timeout=PATIENCE_SECONDS
            )
            end = engine.ended(work)
            assert end is not None
            assert (done.returncode if end.code is None else end.code) == 7
            assert (done.stdout, done.stderr) == ("out\n", "err\n")
            assert not end.host_out_of_memory

    def test_nothing_runs_before_the_client_is_asked_for(self, engine: ContainerEngine) -> None:
        with self._created(engine, "touch ran") as (order, work):
            mark = Path(order.folder, "ran")
            assert not mark.exists()
            subprocess.run(engine.client(work), timeout=PATIENCE_SECONDS, check=False)
            _until(mark.exists)

    def test_what_was_ordered_is_in_its_environment_and_folder(
        self, engine: ContainerEngine
    ) -> None:
        with self._created(engine, 'echo "$GREETING"; pwd') as (order, work):
            done = subprocess.run(
                engine.client(work), capture_output=True, text=True, timeout=PATIENCE_SECONDS
            )
            assert done.stdout.splitlines() == ["hello", order.folder]

    def test_it_is_found_again_by_its_label_until_it_is_cleaned(
        self, engine: ContainerEngine
    ) -> None:
        with self._running(engine, "echo ready; sleep 1000") as (label, work, _):
            assert [one.label for one in engine.find(label)] == [label]
            assert engine.find(f"{label}x") == []
            assert engine.ended(work) is None
            engine.clean(work)
            assert engine.find(label) == []
            engine.clean(work)

    def test_a_request_to_stop_ends_it(self, engine: ContainerEngine) -> None:
        with self._running(engine, "echo ready; sleep 1000") as (label, work, client):
            engine.send(engine.find(label)[0], signal.SIGTERM)
            client.wait(PATIENCE_SECONDS)
            _until(lambda: engine.ended(work) is not None)
            engine.send(work, signal.SIGTERM)  # no error where it has ended

    def test_what_ignores_the_request_is_killed(self, engine: ContainerEngine) -> None:
        with self._running(engine, STUBBORN) as (_, work, client):
            engine.send(work, signal.SIGTERM)
            assert engine.ended(work) is None
            engine.send(work, signal.SIGKILL)
            client.wait(PATIENCE_SECONDS)
            _until(lambda: engine.ended(work) is not None)

    def test_one_who_comes_later_can_wait_for_its_end(self, engine: ContainerEngine) -> None:
        with self._running(engine, "echo ready; sleep 1000") as (label, work, client):
            client.kill()
            client.wait(PATIENCE_SECONDS)
            again = engine.find(label)[0]
            with subprocess.Popen(engine.follow(again, time.time())) as follower:
                assert engine.ended(again) is None
                engine.send(again, signal.SIGKILL)
                follower.wait(PATIENCE_SECONDS)
            _until(lambda: engine.ended(work) is not None)

    def test_a_program_that_is_missing_starts_nothing(self, engine: ContainerEngine) -> None:
        order = self.order(["no-such-program-here"], self._label())
        work = engine.create(order)
        try:
            with suppress(AndonError):  # or the client says so
                done = subprocess.run(
                    engine.client(work), capture_output=True, timeout=PATIENCE_SECONDS
                )
                assert done.returncode == 127
        finally:
            engine.clean(work)
        assert engine.find(order.label) == []

    def test_unknown_work_is_gone_or_ended(self, engine: ContainerEngine) -> None:
        unknown = CreatedWork("0" * 64, self._label())
        with suppress(Gone):
            assert engine.ended(unknown) is not None

    def _label(self) -> str:
        return f"t{os.urandom(4).hex()}"

    @contextmanager
    def _created(
        self, engine: ContainerEngine, script: str
    ) -> Iterator[tuple[WorkOrder, CreatedWork]]:
        order = self.order(["sh", "-c", script], self._label())
        engine.check(order)
        work = engine.create(order)
        try:
            yield order, work
        finally:
            engine.clean(work)

    @contextmanager
    def _running(
        self, engine: ContainerEngine, script: str
    ) -> "Iterator[tuple[str, CreatedWork, subprocess.Popen[str]]]":
        """Yields work that has printed that it is ready."""
        with self._created(engine, script) as (order, work):
            client = subprocess.Popen(engine.client(work), stdout=subprocess.PIPE, text=True)
            try:
                assert client.stdout is not None
                assert client.stdout.readline() == "ready\n"
                yield order.label, work, client
            finally:
                client.kill()
                client.communicate(timeout=PATIENCE_SECONDS)


def _until(holds: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.02)
