"""Runs a command that answers, and reads both of its outputs at once, within a time and a size."""

import ctypes
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

MOST_BYTES = 16 << 20
_PIECE_BYTES = 1 << 16
PR_SET_PDEATHSIG = 1
_prctl = getattr(ctypes.CDLL(None), "prctl", None)


class OutputTooLong(OSError):
    """Raised if a process prints more than any answer has."""

    def __init__(self) -> None:
        super().__init__(0, f"it printed more than {MOST_BYTES >> 20} MiB")


def die_with_parent() -> None:
    """Lets the kernel kill the command with its parent: a hanging client would outlive it."""
    if _prctl is not None:
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def ask_command(
    command: Sequence[str],
    seconds: float,
    text: str = "",
    environment: Mapping[str, str] | None = None,
) -> tuple[int, str, str]:
    """Returns exit code, output and error output; `text` is its input. Raises TimeoutError after
    that time, with the command's whole session killed; OutputTooLong and other OSError if it cannot
    be run. The command dies with this process."""
    until = time.monotonic() + seconds
    with _given(text) as given:
        process = subprocess.Popen(
            command,
            stdin=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=True,  # so that Ctrl-C does not reach it
            preexec_fn=die_with_parent,  # one call into libc, found before the fork
        )
    with process:
        try:
            out, said = read_outputs(process, until)
        except BaseException:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
    return process.returncode, out.decode(errors="replace"), said.decode(errors="replace")


def _given(text: str) -> IO[bytes]:
    """Returns a file with this text: a pipe would block on a command that does not read it."""
    if not text:
        return Path(os.devnull).open("rb")
    from tempfile import TemporaryFile

    file = TemporaryFile()  # noqa: SIM115 - the caller closes it
    file.write(text.encode("utf-8", "surrogateescape"))
    file.seek(0)
    return file


def read_outputs(
    process: "subprocess.Popen[bytes]",
    deadline: float,
    heard: Callable[[bytearray], None] = lambda _: None,
) -> tuple[bytes, bytes]:
    """Reads both outputs to their ends, and waits for its exit; `heard` is called with all that it
    has printed whenever that is more. Raises TimeoutError at the deadline, which is monotonic time,
    and OutputTooLong; the caller must then end the process."""
    assert process.stdout is not None
    assert process.stderr is not None
    texts = {process.stdout.fileno(): bytearray(), process.stderr.fileno(): bytearray()}
    with selectors.DefaultSelector() as selector:
        for descriptor in texts:
            selector.register(descriptor, selectors.EVENT_READ)
        while selector.get_map():
            for key, _ in selector.select(_left(deadline)):
                piece = os.read(key.fd, _PIECE_BYTES)
                texts[key.fd] += piece
                if not piece:
                    selector.unregister(key.fd)
            if sum(map(len, texts.values())) > MOST_BYTES:
                raise OutputTooLong
            heard(texts[process.stdout.fileno()])
    try:
        process.wait(_left(deadline))
    except subprocess.TimeoutExpired as exc:
        raise TimeoutError from exc
    out, errors = texts.values()
    return bytes(out), bytes(errors)


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left
