"""Runs a command that answers: within a time, and with an answer of bounded size."""

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress

MOST_ANSWER_BYTES = 16 * 1024 * 1024
_PIECE_BYTES = 1 << 16


class AnswerTooLong(OSError):
    """The command printed more than any answer has."""


def ask_command(command: Sequence[str], seconds: float) -> tuple[int, str, str]:
    """Exit code, output and error output. TimeoutError after that time, with its whole session
    killed; AnswerTooLong and other OSError where it cannot be run."""
    until = time.monotonic() + seconds
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,  # so that Ctrl-C does not reach it
    )
    with process:
        try:
            out, said = _read(process, until)
            code = process.wait(max(0.0, until - time.monotonic()))
        except BaseException as exc:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            if isinstance(exc, subprocess.TimeoutExpired):
                raise TimeoutError from exc
            raise
    return code, out.decode(errors="replace"), said.decode(errors="replace")


def _read(process: "subprocess.Popen[bytes]", until: float) -> tuple[bytes, bytes]:
    assert process.stdout is not None
    assert process.stderr is not None
    texts = {process.stdout.fileno(): bytearray(), process.stderr.fileno(): bytearray()}
    with selectors.DefaultSelector() as selector:
        for descriptor in texts:
            selector.register(descriptor, selectors.EVENT_READ)
        while selector.get_map():
            if (left := until - time.monotonic()) <= 0:
                raise TimeoutError
            for key, _ in selector.select(left):
                piece = os.read(key.fd, _PIECE_BYTES)
                texts[key.fd] += piece
                if not piece:
                    selector.unregister(key.fd)
            if sum(map(len, texts.values())) > MOST_ANSWER_BYTES:
                raise AnswerTooLong(0, f"it printed more than {MOST_ANSWER_BYTES >> 20} MiB")
    out, said = texts.values()
    return bytes(out), bytes(said)
