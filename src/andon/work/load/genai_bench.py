"""Runs genai-bench as the client of a load and reads its result file."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from andon.errors import AndonError, Unavailable
from andon.host.files import read_tail
from andon.host.processes.child_output import die_with_parent
from andon.work.rules.genai_bench import command_of, figures, results_in
from andon.work.rules.load import ClientEnd, LoadFigures, LoadOrder, RequestResult

KEY = "MODEL_API_KEY"
SAID_BYTES = 4096


def find_tool() -> str:
    """Returns the path of the program; raises Unavailable if it is not installed."""
    program = shutil.which("genai-bench")
    if program is None:
        raise Unavailable("genai-bench is not installed", hint="pip install genai-bench")
    return program


class GenaiBenchLoad:
    """One load, as `DrivenLoad`; its folder is private and deleted: the tool writes the key into
    it. Interrupted, it has no results: the tool writes them at its end."""

    def __init__(self, order: LoadOrder, tokenizer: str, input_tokens: int) -> None:
        self._order = order
        self._folder = tempfile.TemporaryDirectory(prefix="andon-", ignore_cleanup_errors=True)
        command = command_of(order, tokenizer, input_tokens, self._folder.name)
        self._said = Path(self._folder.name) / "output"
        self._began = time.time()
        with self._said.open("wb") as output:
            self._process = subprocess.Popen(
                [find_tool(), *command[1:]],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self._folder.name,
                env={**os.environ, KEY: order.key or "none"},
                start_new_session=True,  # Ctrl-C reaches it through `interrupt`
                preexec_fn=die_with_parent(),
            )
        self.results: list[RequestResult] = []
        self._is_interrupted = False

    def run(self, each: Callable[[RequestResult], None] = lambda one: None) -> LoadFigures:
        """Waits for the end of the tool; then `each` gets every result."""
        ends: list[ClientEnd] = []
        with self._folder:
            self._process.wait()
            found = sorted(Path(self._folder.name).glob("result/*_num_concurrency_*.json"))
            if not found and not self._is_interrupted:
                last = read_tail(self._said, SAID_BYTES).strip().rpartition("\n")[2]
                raise AndonError(f"genai-bench has no result: {last[:200]}")
            for path in found:
                results, end = results_in(path.read_bytes(), self._began)
                ends.append(end)
                for one in results:
                    self.results.append(one)
                    each(one)
        return figures(self._order, self.results, ends)

    def interrupt(self) -> None:
        """Asks it to end; `run` returns soon."""
        self._is_interrupted = True
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGINT)
