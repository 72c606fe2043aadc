"""How a command ended, and whether it ran out of memory: GPU memory or host memory."""

import re
from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct

from andon.model.execution import OUT_OF_HOST_MEMORY
from andon.model.naming import title
from andon.model.run.record import OutOfMemory, RunState
from andon.units import human_bytes

AT_LIMIT_PERCENT = 97.0
SIGKILL = 9
LONGEST_LINE = 4000
LEAK, STEP = "leak", "step"
FEWEST_POINTS = 6
GROWN_SHARE = 0.05  # of the device's memory, in the last two thirds of the run


PATTERNS = (
    ("PyTorch", r"torch\.(?:cuda\.)?OutOfMemoryError|(?:CUDA|HIP) out of memory\. Tried to"),
    ("JAX", r"RESOURCE_EXHAUSTED: (?:Out of memory|Failed to allocate)"),
    ("TensorFlow", r"OOM when allocating tensor|ResourceExhaustedError"),
    ("CuPy", r"cupy[\w.]*\.OutOfMemoryError"),
    ("SGLang", r"Not enough memory\. Please try .{0,40}--mem-fraction-static"),
    ("cuBLAS", r"CUBLAS_STATUS_ALLOC_FAILED"),
    ("cuDNN", r"CUDNN_STATUS_ALLOC_FAILED"),
    (
        "vLLM",
        r"No available memory for the cache blocks"
        r"|Free memory on device .{0,80}is less than desired GPU memory utilization"
        r"|(?:more|larger) than the (?:available KV cache memory|maximum number of tokens that "
        r"can be stored in (?:the )?KV cache)",
    ),
    ("HIP", r"hipErrorOutOfMemory|HIP error: out of memory"),
    (
        "CUDA",
        r"CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation|cudaMalloc failed: out of memory"
        r"|(?i:cuda)[^\n]{0,60}: out of memory|CUDA error: out of memory",
    ),
)
"""Each framework's message; the most specific first, since PyTorch's contains CUDA's."""

_SIZE = r"([\d.]+) ?([KMGT]?)(?:iB|B|bytes)"
_WANTED = r"(?:Tried to allocate|allocating|allocate) ([\d.]+ ?(?:[KMGT]i?B|bytes))"
_NUMBERS = {
    "wanted": rf"(?:Tried to allocate|allocating|allocate) {_SIZE}",
    "total": rf"total capacity of {_SIZE}",
    "free": rf"of which {_SIZE} is free|; {_SIZE} free",
    "own": rf"this process has {_SIZE} memory in use",
    "cache": rf"{_SIZE} is reserved by PyTorch but unallocated",
}
_OTHER = rf"Process \d+ has {_SIZE} memory in use"
_FACTORS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


class MemoryBeforeEnd(Struct, frozen=True):
    """A device's memory shortly before the end."""

    label: str
    used_bytes: int | None
    total_bytes: int | None

    @property
    def at_limit(self) -> bool:
        if self.used_bytes is None or not self.total_bytes:
            return False
        return 100 * self.used_bytes / self.total_bytes >= AT_LIMIT_PERCENT


class Verdict(Struct, frozen=True):
    """Why a command ended, as a sentence with the numbers."""

    end: RunState
    message: str
    reported_by: str | None = None


def complaint(tail: str) -> tuple[str, str] | None:
    """Returns the framework that ran out of GPU memory, and its last message about it."""
    for line in reversed(tail.splitlines()):
        for name, pattern in PATTERNS:
            if re.search(pattern, line):
                return name, line.strip()[:LONGEST_LINE]
    return None


def verdict(
    code: int,
    signal: int | None,
    tail: str,
    memory: Sequence[MemoryBeforeEnd],
    host_kills: int = 0,
    ended_for: str | None = None,
    requested: str | bool = False,
    container_killed: bool = False,
) -> Verdict:
    """The reason. An out-of-memory message counts only if the command failed: many are caught."""
    if code == 0:
        return Verdict(RunState.SUCCEEDED, "finished successfully")
    if ended_for is not None:
        return Verdict(RunState.TIMEOUT, ended_for)
    if container_killed:
        return Verdict(RunState.HOST_OUT_OF_MEMORY, OUT_OF_HOST_MEMORY)
    reported = complaint(tail)
    if reported is not None:
        return Verdict(RunState.DEVICE_OUT_OF_MEMORY, _device_text(*reported, memory), reported[0])
    if SIGKILL in (signal, code - 128) and host_kills > 0:  # its own, or as a shell reports it
        killed = "killed by the kernel: out of host memory (OOM killer)"
        return Verdict(RunState.HOST_OUT_OF_MEMORY, killed)
    if requested:
        return Verdict(
            RunState.STOPPED, requested if isinstance(requested, str) else "stopped on request"
        )
    full = _held([one for one in memory if one.at_limit])
    if signal is not None:
        return Verdict(RunState.SIGNAL, f"ended by signal {signal}{full}")
    return Verdict(RunState.FAILED, f"exit code {code}{full}")


def memory_numbers(
    tail: str, memory: Sequence[MemoryBeforeEnd], growth: str | None
) -> OutOfMemory | None:
    """The numbers in the message, else those of the samples; None if there is no message."""
    reported = complaint(tail)
    if reported is None:
        return None
    found = {name: _bytes(re.search(pattern, reported[1])) for name, pattern in _NUMBERS.items()}
    own, free, total = found["own"], found["free"], found["total"]
    others = [_bytes(each) for each in re.finditer(_OTHER, reported[1])]
    held = sum(size or 0 for size in others) if others else None
    if held is None and None not in (own, free, total):
        held = max(0, (total or 0) - (free or 0) - (own or 0))
    known = [s for s in memory if s.used_bytes is not None and s.total_bytes]
    if free is None and known:
        fullest = max(known, key=lambda one: (one.used_bytes or 0) / (one.total_bytes or 1))
        free = max(0, (fullest.total_bytes or 0) - (fullest.used_bytes or 0))
    return OutOfMemory(reported[0], found["wanted"], free, own, held, found["cache"], growth)


def memory_growth(curve: Sequence[float], total_bytes: int | None) -> str | None:
    """Returns whether a device's memory grew all the time, or one large step was too much; None
    if too little is known. `curve` is its memory over the run."""
    late = curve[len(curve) // 3 :]
    if len(late) < FEWEST_POINTS or not total_bytes:
        return None
    steps = [after - before for before, after in pairwise(late)]
    rising = sum(step > 0 for step in steps) / len(steps)
    falling = sum(step < 0 for step in steps) / len(steps)
    grown = (late[-1] - late[0]) / total_bytes
    largest = max(steps) / total_bytes
    if grown >= GROWN_SHARE and rising >= 0.3 and falling <= 0.2 and largest < 0.6 * grown:
        return LEAK
    return STEP


def _bytes(found: re.Match[str] | None) -> int | None:
    parts = [part for part in found.groups() if part is not None] if found else []
    try:
        return round(float(parts[0]) * _FACTORS[parts[1]]) if parts else None
    except ValueError:  # such as 1.2.3
        return None


def _device_text(name: str, line: str, memory: Sequence[MemoryBeforeEnd]) -> str:
    wanted = re.search(_WANTED, line)
    attempt = f"{name} tried to allocate {wanted[1]} more" if wanted else f"reported by {name}"
    known = [s for s in memory if s.used_bytes is not None and s.total_bytes]
    return f"out of GPU memory: {attempt}{_held(known)}"


def _size(count: int | None) -> str:
    return human_bytes(count or 0)


def _held(memory: Sequence[MemoryBeforeEnd]) -> str:
    """Returns a clause with the memory that devices held; empty without devices."""
    held = (
        f"{title(s.label)} held {_size(s.used_bytes)} of {_size(s.total_bytes)}" for s in memory
    )
    return f"; {', '.join(held)}" if memory else ""
