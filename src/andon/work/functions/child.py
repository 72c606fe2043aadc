"""The process `function FD FD`: calls a carried function for its parent.

Requests and answers are frames on two descriptors of their own, so that what the function prints
disturbs nothing. When the parent has exited, so does this process, even in the middle of a call.
"""

import os
import queue
import struct
import sys
import threading
import traceback
from typing import Any

from andon.errors import Invalid
from andon.work.functions.carrying import carried, carry_value

FRAME = struct.Struct("!Q")


def read_frame(descriptor: int) -> bytes | None:
    """Reads the next frame; None at the end."""
    head = _exactly(descriptor, FRAME.size)
    return None if head is None else _exactly(descriptor, FRAME.unpack(head)[0])


def write_frame(descriptor: int, content: bytes) -> None:
    left = memoryview(FRAME.pack(len(content)) + content)
    while left:
        left = left[os.write(descriptor, left) :]


def _exactly(descriptor: int, count: int) -> bytes | None:
    pieces: list[bytes] = []
    while count:
        piece = os.read(descriptor, min(count, 1 << 20))
        if not piece:
            return None
        pieces.append(piece)
        count -= len(piece)
    return b"".join(pieces)


def failed(error: BaseException) -> dict[str, Any]:
    """Returns the answer for an exception: always its text, and the exception itself if it can
    be carried."""
    printed = "".join(traceback.format_exception(error))
    answer: dict[str, Any] = {"error": f"{type(error).__name__}: {error}", "traceback": printed}
    try:
        answer["exception"] = carry_value(error.with_traceback(None))
    except Invalid:
        answer["exception"] = None
    return answer


def called(function: Any, argument: bytes) -> bytes:
    try:
        result = carry_value(function(carried(argument)))
    except KeyboardInterrupt:
        raise
    except BaseException as exc:  # noqa: BLE001 - a function may raise anything, SystemExit too
        return carry_value(failed(exc))
    return carry_value({"result": result})


def _take_requests(descriptor: int, requests: queue.SimpleQueue[bytes]) -> None:
    while (frame := read_frame(descriptor)) is not None:
        requests.put(frame)
    os._exit(0)  # the parent has finished with this process, or has ended


def main(arguments: list[str]) -> None:
    source, target = int(arguments[0]), int(arguments[1])
    for descriptor in (source, target):
        os.set_inheritable(descriptor, False)  # a process that the function starts must not answer
    first = read_frame(source)
    if first is None:
        return
    requests: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_take_requests, args=(source, requests), daemon=True).start()
    setup = carried(first)
    sys.path[:] = [*setup["path"], *(one for one in sys.path if one not in setup["path"])]
    try:
        function = carried(setup["function"])
    except BaseException as exc:  # noqa: BLE001 - importing a module may raise anything
        write_frame(target, carry_value({"start": failed(exc)}))
        return
    write_frame(target, carry_value({"start": None}))
    while True:
        answer = called(function, requests.get())
        sys.stdout.flush()
        sys.stderr.flush()
        write_frame(target, answer)


if __name__ == "__main__":
    main(sys.argv[1:])
