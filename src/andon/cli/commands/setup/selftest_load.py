"""A small, bounded load in its own process: `python -m … selftest_load SECONDS`.

It multiplies matrices with an installed CUDA framework, for at most ten seconds and half a GiB,
and ends with its parent. It changes no setting of the device.
"""

import importlib
import importlib.util
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from andon.errors import Unavailable
from andon.host.interpreter import module_environment, process_command

FRAMEWORKS = ("torch", "cupy", "jax")
MAX_SECONDS = 10.0
MAX_BYTES = 512 * 1024 * 1024
START_SECONDS = 90.0  # the first import of a framework from a cold disk
READY = "ready"
SIDE = 4096  # three matrices of 32 or 64 MiB
AT_ONCE = 10


def installed() -> list[str]:
    """The installed frameworks, found without importing them."""
    return [name for name in FRAMEWORKS if importlib.util.find_spec(name) is not None]


@contextmanager
def loaded(uuid: str, seconds: float) -> Iterator[tuple[int, str]]:
    """Keep the device busy inside the block; yields the pid and the framework."""
    command = process_command("gpu-load", f"{min(seconds, MAX_SECONDS):g}")
    child = subprocess.Popen(
        command,
        env=environment(uuid),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        yield child.pid, _ready(child)
    finally:
        child.kill()
        if child.stdout is not None:
            child.stdout.close()
        with suppress(subprocess.TimeoutExpired):  # stuck in the kernel: do not wait for it
            child.wait(5.0)


def environment(uuid: str) -> dict[str, str]:
    """An environment that shows one device and lets frameworks allocate only what they need."""
    return {
        **module_environment(),
        "CUDA_VISIBLE_DEVICES": uuid,
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    }


def _ready(child: subprocess.Popen[str]) -> str:
    if child.stdout is None:
        raise Unavailable("the load has no output")
    readable, _, _ = select.select([child.stdout], [], [], START_SECONDS)
    output = child.stdout.readline().strip() if readable else "it did not start in time"
    word, _, rest = output.partition(" ")
    if word != READY:
        raise Unavailable(output or "the load ended without output")
    return rest


def main(arguments: Sequence[str]) -> None:
    """Uses the first framework that can use the device, or prints why none can."""
    seconds = float(arguments[0])
    reasons = []
    for name in installed():
        try:
            step = _STARTS[name](importlib.import_module(name))
            step()
        except Exception as exc:  # noqa: BLE001 - every framework fails differently
            reasons.append(f"{name}: {(str(exc).splitlines() or [repr(exc)])[0][:120]}")
            continue
        print(READY, name, flush=True)
        return work(step, time.monotonic() + min(seconds, MAX_SECONDS))
    print("; ".join(reasons) or "no framework", flush=True)
    return None


def work(step: Callable[[], object], end: float) -> None:
    """Work without a pause until the time is over or the parent has exited."""
    parent = os.getppid()
    while time.monotonic() < end and os.getppid() == parent:
        step()


def _torch(torch: Any) -> Callable[[], object]:
    left = torch.ones(SIDE, SIDE, device="cuda", dtype=torch.float16)
    out = torch.empty_like(left)

    def step() -> None:
        for _ in range(AT_ONCE):
            torch.matmul(left, left, out=out)
        torch.cuda.synchronize()

    return step


def _cupy(cupy: Any) -> Callable[[], object]:
    cupy.get_default_memory_pool().set_limit(size=MAX_BYTES)
    left = cupy.ones((SIDE, SIDE), dtype="float16")

    def step() -> None:
        for _ in range(AT_ONCE):
            _ = left @ left
        cupy.cuda.Device().synchronize()

    return step


def _jax(jax: Any) -> Callable[[], object]:
    if jax.default_backend() != "gpu":
        raise RuntimeError("it sees no CUDA device")
    left = jax.numpy.ones((SIDE, SIDE), dtype="float16")
    multiply = jax.jit(lambda matrix: matrix @ matrix)
    return lambda: [multiply(left).block_until_ready() for _ in range(AT_ONCE)]


_STARTS: dict[str, Callable[[Any], Callable[[], object]]] = {
    "torch": _torch,
    "cupy": _cupy,
    "jax": _jax,
}


if __name__ == "__main__":
    main(sys.argv[1:])
