"""The contract of every executor, as a pytest suite that other packages can use too.

class TestMyExecutor(ExecutorContract):
    @pytest.fixture
    def executor(self):
        return MyExecutor()

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
from typing import ClassVar

from andon.errors import AndonError, Gone
from andon.model.execution import CreatedWork, WorkOrder
from andon.ports import Executor

PATIENCE_SECONDS = 60.0
STUBBORN = "trap '' TERM; echo ready; while true; do sleep 1; done"


class ExecutorContract:
    """Subclass it with a fixture `executor` and a method `order`."""

    outlives_its_client: ClassVar[bool] = False
    """Whether the work keeps running when its client is killed."""

    def order(self, command: Sequence[str], label: str) -> WorkOrder:
        """An order for this command in a folder that both sides see."""
        raise NotImplementedError

    def test_the_client_passes_output_and_ends_with_the_command(self, executor: Executor) -> None:
        script = "echo out; echo err >&2; exit 7"
        with self._created(executor, script) as (_, work):
            done = subprocess.run(
                executor.client(work), capture_output=True, text=True, timeout=PATIENCE_SECONDS
            )
            end = executor.ended(work)
            assert end is not None
            assert (done.returncode if end.code is None else end.code) == 7
            assert (done.stdout, done.stderr) == ("out\n", "err\n")
            assert not end.host_out_of_memory

    def test_nothing_runs_before_the_client_is_asked_for(self, executor: Executor) -> None:
        with self._created(executor, "touch ran") as (order, work):
            mark = Path(order.folder, "ran")
            assert not mark.exists()
            subprocess.run(executor.client(work), timeout=PATIENCE_SECONDS, check=False)
            _until(mark.exists)

    def test_what_was_ordered_is_in_its_environment_and_folder(self, executor: Executor) -> None:
        with self._created(executor, 'echo "$GREETING"; pwd') as (order, work):
            done = subprocess.run(
                executor.client(work), capture_output=True, text=True, timeout=PATIENCE_SECONDS
            )
            assert done.stdout.splitlines() == ["hello", order.folder]

    def test_it_is_found_again_by_its_label_until_it_is_cleaned(self, executor: Executor) -> None:
        with self._running(executor, "echo ready; sleep 1000") as (label, work, _):
            assert [one.label for one in executor.find(label)] == [label]
            assert executor.find(f"{label}x") == []
            assert executor.ended(work) is None
            executor.clean(work)
            assert executor.find(label) == []
            executor.clean(work)

    def test_a_request_to_stop_ends_it(self, executor: Executor) -> None:
        with self._running(executor, "echo ready; sleep 1000") as (label, work, client):
            executor.send(executor.find(label)[0], signal.SIGTERM)
            client.wait(PATIENCE_SECONDS)
            _until(lambda: executor.ended(work) is not None)
            executor.send(work, signal.SIGTERM)  # no error where it has ended

    def test_what_ignores_the_request_is_killed(self, executor: Executor) -> None:
        with self._running(executor, STUBBORN) as (_, work, client):
            executor.send(work, signal.SIGTERM)
            assert executor.ended(work) is None
            executor.send(work, signal.SIGKILL)
            client.wait(PATIENCE_SECONDS)
            _until(lambda: executor.ended(work) is not None)

    def test_one_who_comes_later_can_wait_for_its_end(self, executor: Executor) -> None:
        with self._running(executor, "echo ready; sleep 1000") as (label, work, client):
            if self.outlives_its_client:
                client.kill()
                client.wait(PATIENCE_SECONDS)
            again = executor.find(label)[0]
            with subprocess.Popen(executor.follow(again, time.time())) as follower:
                assert executor.ended(again) is None
                executor.send(again, signal.SIGKILL)
                follower.wait(PATIENCE_SECONDS)
            _until(lambda: executor.ended(work) is not None)

    def test_a_program_that_is_missing_starts_nothing(self, executor: Executor) -> None:
        order = self.order(["no-such-program-here"], self._label())
        work = executor.create(order)
        try:
            with suppress(AndonError):  # or the client says so
                done = subprocess.run(
                    executor.client(work), capture_output=True, timeout=PATIENCE_SECONDS
                )
                assert done.returncode == 127
        finally:
            executor.clean(work)
        assert executor.find(order.label) == []

    def test_unknown_work_is_gone_or_ended(self, executor: Executor) -> None:
        unknown = CreatedWork("0" * 64, self._label())
        with suppress(Gone):
            assert executor.ended(unknown) is not None

    def _label(self) -> str:
        return f"t{os.urandom(4).hex()}"

    @contextmanager
    def _created(self, executor: Executor, script: str) -> Iterator[tuple[WorkOrder, CreatedWork]]:
        order = self.order(["sh", "-c", script], self._label())
        executor.check(order)
        work = executor.create(order)
        try:
            yield order, work
        finally:
            executor.clean(work)

    @contextmanager
    def _running(
        self, executor: Executor, script: str
    ) -> "Iterator[tuple[str, CreatedWork, subprocess.Popen[str]]]":
        """Yields work that has printed that it is ready."""
        with self._created(executor, script) as (order, work):
            client = subprocess.Popen(executor.client(work), stdout=subprocess.PIPE, text=True)
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
