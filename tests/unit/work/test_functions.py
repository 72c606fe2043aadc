"""A function in a spawned process: its result, its exception, its output and its end."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from andon.errors import AndonError, Invalid
from andon.work.functions import carrying
from andon.work.functions.caller import CallOutcome, FunctionWorker
from tests.conftest import REPOSITORY
from tests.support import carried_functions as functions
from tests.support.waiting import wait_for

pytestmark = pytest.mark.process
GRACE = 10.0


def call(function: Callable[[Any], Any], argument: Any, **environment: str) -> CallOutcome:
    """One call in a new process."""
    with FunctionWorker(function, environment, GRACE) as worker:
        return worker.call(argument)


def test_a_worker_takes_one_argument_after_the_other_in_one_process_of_its_own() -> None:
    with FunctionWorker(functions.doubled, {}, GRACE) as worker:
        assert [worker.call(n).value() for n in (1, 2, 3)] == [2, 4, 6]
        assert worker.pid is not None
        assert worker.pid != os.getpid()
    with FunctionWorker(functions.process_of, {}, GRACE) as worker:
        first, second = worker.call(None).value(), worker.call(None).value()
        assert first == second == (worker.pid, worker.pid), "it leads a group of its own"


def test_an_exception_arrives_as_itself_with_the_output_kept() -> None:
    with FunctionWorker(functions.refuses, {}, GRACE) as worker:
        outcome = worker.call(3)
        assert (outcome.ok, outcome.error) == (False, "ValueError: 3 is too small")
        with pytest.raises(ValueError, match="3 is too small") as raised:
            outcome.value()
        assert "carried_functions.py" in raised.value.__notes__[0]
        wait_for(lambda: "before it fails" in worker.output())
        assert worker.call(4).error == "ValueError: 4 is too small", "it goes on"


def test_a_process_that_ends_during_a_call_is_told_apart_and_replaced() -> None:
    with FunctionWorker(functions.dies, {}, GRACE) as worker:
        outcome = worker.call(signal.SIGKILL)
        assert (outcome.signal, outcome.error) == (9, "its process was ended by signal 9")
        assert "last words" in worker.output()
        assert worker.call(signal.SIGSEGV).signal == signal.SIGSEGV
    outcome = call(functions.exits, 7)
    assert outcome.error == "SystemExit: 7", "an exit of the function is an exception like others"


def test_a_call_that_takes_too_long_is_ended_even_if_it_ignores_it(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    with FunctionWorker(functions.sleeps, {}, 0.2) as worker:
        worker.start()
        outcome = worker.call(str(pid), 1.0)
        assert outcome.timed_out
        if pid.exists():  # on a busy machine it may not have come so far
            assert not Path(f"/proc/{pid.read_text()}").exists()


def test_the_environment_is_added_to_ours() -> None:
    outcome = call(functions.variable, "CUDA_VISIBLE_DEVICES", CUDA_VISIBLE_DEVICES="GPU-1")
    assert outcome.value() == "GPU-1"


def test_a_result_that_cannot_be_sent_is_one_sentence() -> None:
    outcome = call(functions.unspeakable, None)
    with pytest.raises(AndonError, match="type lock cannot be sent to another process"):
        outcome.value()


def test_a_result_that_cannot_be_opened_again_is_a_failure_of_its_call_alone() -> None:
    with FunctionWorker(functions.returns_odd, {}, GRACE) as worker:
        outcome = worker.call(None)
        assert (outcome.error or "").startswith("its result cannot be read here: TypeError: ")
        pid = worker.pid
        assert not worker.call(None).ok
        assert worker.pid == pid, "the process goes on"


def test_a_closure_travels_whole_where_cloudpickle_is_installed() -> None:
    extra = 5
    outcome = call(lambda number: number + extra, 2)
    assert outcome.value() == 7


def test_without_cloudpickle_a_closure_is_refused_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(Invalid, match="cloudpickle is not installed") as refused:
        carrying.carry_function(lambda number: number)
    assert "andon[notebooks]" in refused.value.hint
    assert carrying.carry_function(functions.doubled), "what can be imported needs nothing"


SCRIPT = """
from andon.work.functions.caller import FunctionWorker
base = 40
def plus(number):
    return base + number
with FunctionWorker(plus, {}, 10.0) as worker:
    print(worker.call(2).value())
"""


def test_a_function_of_a_script_travels_with_what_it_refers_to(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY / "src")}
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, env=env, timeout=60
    )
    assert (done.stdout, done.stderr) == ("42\n", "")


def test_the_process_ends_with_its_parent(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    program = (
        "from andon.work.functions.caller import FunctionWorker\n"
        "from tests.support.carried_functions import sleeps\n"
        f"FunctionWorker(sleeps, {{}}, 10.0).call({str(pid)!r})\n"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(REPOSITORY / "src"), str(REPOSITORY)])}
    with subprocess.Popen([sys.executable, "-c", program], env=env) as parent:
        wait_for(lambda: pid.exists() and pid.read_text(), 40)
        parent.kill()
    wait_for(lambda: not _lives(int(pid.read_text())), 40)


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
