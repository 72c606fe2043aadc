"""Functions that tests call in another process."""

import os
import signal
import sys
import threading
import time
from pathlib import Path


def doubled(number: int) -> int:
    return 2 * number


def process_of(argument: object) -> tuple[int, int]:
    return os.getpid(), os.getpgid(0)


def variable(name: str) -> str | None:
    return os.environ.get(name)


def refuses(number: int) -> int:
    print("before it fails", flush=True)
    raise ValueError(f"{number} is too small")


def exits(code: int) -> None:
    sys.exit(code)


def dies(number: int) -> None:
    print("last words", flush=True)
    os.kill(os.getpid(), number)


def sleeps(path: str) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    Path(path).write_text(str(os.getpid()))
    time.sleep(1000)


def unspeakable(argument: object) -> object:
    return threading.Lock()


def stops_at(capacity: int, size: int) -> float:
    if size > capacity:
        raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB.")
    return 10.0 * size


def stops_at_20(size: int) -> float:
    return stops_at(20, size)


def never_fits(size: int) -> float:
    return stops_at(0, size)


def breaks_at_4(size: int) -> None:
    if size >= 4:
        raise KeyError("labels")


class OddError(Exception):
    """Pickled with one argument, made of two: it cannot be opened again."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(first + second)


def returns_odd(argument: object) -> object:
    return OddError("a", "b")
