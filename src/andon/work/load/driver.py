"""Starts the clients of a load, andon's own or genai-bench, and takes their results."""

import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import Queue

import msgspec
from msgspec.structs import replace

from andon.errors import AndonError, Unavailable
from andon.host.files import read_tail
from andon.host.interpreter import module_environment, process_command
from andon.host.processes.child_output import die_with_parent
from andon.model.codec import prepared
from andon.work.rules.genai_bench import command_of, figures, results_in
from andon.work.rules.load import ClientEnd, LoadFigures, LoadOrder, RequestResult, figures_of


class DrivenLoad:
    """One load; `interrupt` may be called from a signal handler."""

    def __init__(
        self, order: LoadOrder, clients: int = 1, begun: Callable[[], None] = lambda: None
    ) -> None:
        """`begun` is called when the first client has started and warmed up the server."""
        self._order, self._begun = order, begun
        self._lines: Queue[bytes | None] = Queue()
        self._processes = [self._start(share, clients) for share in range(clients)]
        self.results: list[RequestResult] = []
        self.ends: list[ClientEnd] = []

    def _start(self, share: int, shares: int) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            process_command("load-client"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=module_environment(),
            start_new_session=True,  # Ctrl-C reaches it through `interrupt`
            preexec_fn=die_with_parent(),
        )
        assert process.stdin is not None
        with suppress(BrokenPipeError), process.stdin:  # it has ended: `run` says with which code
            process.stdin.write(
                msgspec.json.encode(replace(self._order, share=share, shares=shares))
            )
        threading.Thread(target=self._read, args=(process,), name="andon load", daemon=True).start()
        return process

    def _read(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                self._lines.put(line)
        self._lines.put(None)

    def run(self, each: Callable[[RequestResult], None] = lambda one: None) -> LoadFigures:
        """Waits for the end of the load; `each` is called with every result."""
        open_ = len(self._processes)
        while open_:
            line = self._lines.get()
            if line is None:
                open_ -= 1
            elif line.startswith(b'"'):
                self._begun()
                self._begun = lambda: None
            elif line.startswith(b"["):
                self.results.append(msgspec.json.decode(line, type=prepared(RequestResult)))
                each(self.results[-1])
            else:
                self.ends.append(msgspec.json.decode(line, type=prepared(ClientEnd)))
        codes = [process.wait() for process in self._processes]
        if any(codes) and not self.results:
            raise AndonError(f"a client of the load ended with code {max(map(abs, codes))}")
        return self.figures()

    def interrupt(self) -> None:
        """Stops the sending of requests: earlier answers count, and `run` returns soon."""
        for process in self._processes:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGINT)

    def figures(self) -> LoadFigures:
        return figures_of(self._order, self.results, self.ends)


# genai-bench as the client.

KEY = "MODEL_API_KEY"
PRINTED_BYTES = 4096


def find_tool() -> str:
    """Returns the path of the program; raises Unavailable if it is not installed."""
    program = shutil.which("genai-bench")
    if program is None:
        raise Unavailable("genai-bench is not installed", hint="pip install genai-bench")
    return program


class GenaiBenchLoad:
    """A load by genai-bench. Its folder is private and deleted, because the tool writes the key
    into it. If interrupted, it has no results: the tool writes them at its end."""

    def __init__(self, order: LoadOrder, tokenizer: str, input_tokens: int) -> None:
        self._order = order
        self._folder = tempfile.TemporaryDirectory(prefix="andon-", ignore_cleanup_errors=True)
        command = command_of(order, tokenizer, input_tokens, self._folder.name)
        self._printed = Path(self._folder.name) / "output"
        self._began = time.time()
        with self._printed.open("wb") as output:
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
        """Waits for the end of the tool, then calls `each` with every result."""
        ends: list[ClientEnd] = []
        with self._folder:
            self._process.wait()
            found = sorted(Path(self._folder.name).glob("result/*_num_concurrency_*.json"))
            if not found and not self._is_interrupted:
                last = read_tail(self._printed, PRINTED_BYTES).strip().rpartition("\n")[2]
                raise AndonError(f"genai-bench has no result: {last[:200]}")
            for path in found:
                results, end = results_in(path.read_bytes(), self._began)
                ends.append(end)
                for one in results:
                    self.results.append(one)
                    each(one)
        return figures(self._order, self.results, ends)

    def interrupt(self) -> None:
        """Ends the tool; `run` returns soon."""
        self._is_interrupted = True
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGINT)
