"""Keeps the first CUDA device busy for a bounded time: `python -m tests.device.load SECONDS`."""

import importlib
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

READY = "ready"
START_SECONDS = 90.0  # the first import of torch on a cold disk
SIDE = 8192


class NoLoadError(Exception):
    """The device cannot be kept busy here; the message says why."""


@contextmanager
def loaded(seconds: float) -> Iterator[int]:
    """Keep a device busy during the block, `seconds` at most; yields the load's pid."""
    command = [sys.executable, "-m", "tests.device.load", f"{seconds:g}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            _wait_until_ready(process)
            yield process.pid
        finally:
            process.kill()


def _wait_until_ready(process: "subprocess.Popen[str]") -> None:
    assert process.stdout is not None
    heard, _, _ = select.select([process.stdout], [], [], START_SECONDS)
    said = process.stdout.readline().strip() if heard else "it did not start in time"
    if said != READY:
        raise NoLoadError(said or "the load ended without output")


def main(seconds: float) -> None:
    try:
        torch = importlib.import_module("torch")
    except ImportError as exc:
        print(f"torch cannot be imported: {exc}", flush=True)
        return
    if not torch.cuda.is_available():
        print("torch sees no CUDA device", flush=True)
        return
    multiply(torch, time.monotonic() + seconds)


def multiply(torch: object, end: float) -> None:
    """Tensor-core work without a pause, until its time or its parent ends."""
    cuda = getattr(torch, "cuda")  # noqa: B009 - torch is not installed where this is checked
    make, kind = getattr(torch, "randn"), getattr(torch, "bfloat16")  # noqa: B009
    left = make(SIDE, SIDE, device="cuda", dtype=kind)
    parent, told = os.getppid(), False
    while time.monotonic() < end and os.getppid() == parent:
        for _ in range(20):
            _ = left @ left
        cuda.synchronize()
        if not told:
            print(READY, flush=True)
            told = True


if __name__ == "__main__":
    main(float(sys.argv[1]))
