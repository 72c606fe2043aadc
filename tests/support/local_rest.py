"""A listener at a local socket that answers paths with what the test wants, and remembers what it
was asked."""

import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

from msgspec import Struct

from andon.access.local_rest import RestAnswer, answer, is_over, paths_in, socket_name

HEX = "0123456789abcdef" * 2


class Asked(Struct):
    """What is answered to each path; what was asked, by exchange."""

    answers: dict[str, RestAnswer]
    frames: list[tuple[str, ...]] = []
    raw: bytes | None = None  # is sent instead of any answer


@contextmanager
def answering(
    port: int, answers: Mapping[str, RestAnswer] | None = None, raw: bytes | None = None
) -> Iterator[Asked]:
    """Answers every connection until the end of the block; 404 to other paths."""
    found = Asked(dict(answers or {}), raw=raw)

    def reply(received: bytes) -> bytes:
        paths = paths_in(received) or ()
        found.frames.append(paths)
        if found.raw is not None:
            return found.raw
        return answer([found.answers.get(one, RestAnswer(404, b"{}")) for one in paths])

    with listening(port, reply):
        yield found


@contextmanager
def listening(port: int, reply: Callable[[bytes], bytes]) -> Iterator[None]:
    """Sends to every client what `reply` makes of its frame."""
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(f"\0{socket_name(port, HEX)}")
        door.listen()

        def serve() -> None:
            with suppress(OSError):
                while True:
                    caller, _ = door.accept()
                    with caller, suppress(OSError):  # it may have gone
                        caller.sendall(reply(_frame_of(caller)))

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield
        finally:
            door.shutdown(socket.SHUT_RDWR)
            thread.join()


def _frame_of(caller: socket.socket) -> bytes:
    received = b""
    while not is_over(received) and (piece := caller.recv(4096)):
        received += piece
    return received
