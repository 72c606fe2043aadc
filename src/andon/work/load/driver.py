"""Starts the clients of a load and takes their results as they come."""

import signal
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Queue

import msgspec
from msgspec.structs import replace

from andon.errors import AndonError
from andon.host.interpreter import module_environment, process_command
from andon.host.processes.child_output import die_with_parent
from andon.model.codec import prepared
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
        process.stdin.write(msgspec.json.encode(replace(self._order, share=share, shares=shares)))
        process.stdin.close()
        threading.Thread(target=self._read, args=(process,), name="andon load", daemon=True).start()
        return process

    def _read(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                self._lines.put(line)
        self._lines.put(None)

    def run(self, each: Callable[[RequestResult], None] = lambda one: None) -> LoadFigures:
        """Waits for the end of the load; `each` gets every result when it comes."""
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
        """Asks the clients to send no more: what came back counts, and `run` returns soon."""
        for process in self._processes:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGINT)

    def figures(self) -> LoadFigures:
        return figures_of(self._order, self.results, self.ends)
