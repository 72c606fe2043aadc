"""Reads what a child process prints, both outputs at once, within a time and a size."""

import os
import selectors
import subprocess
import time

MOST_BYTES = 16 << 20
_PIECE_BYTES = 1 << 16


class OutputTooLong(OSError):
    """Raised if a process prints more than any answer has."""

    def __init__(self) -> None:
        super().__init__(0, f"it printed more than {MOST_BYTES >> 20} MiB")


def read_outputs(process: "subprocess.Popen[bytes]", deadline: float) -> tuple[bytes, bytes]:
    """Reads both outputs to their ends, and waits for its exit. Raises TimeoutError at the
    deadline, which is monotonic time, and OutputTooLong; the caller must then end the process."""
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
