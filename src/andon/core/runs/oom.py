"""How a command ended, and whether it ran out of memory: GPU memory or host memory."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from andon.model.naming import title
from andon.units import human_bytes

AT_LIMIT_PERCENT = 97.0
SIGKILL = 9


class CommandEnding(StrEnum):
    """Why it ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    DEVICE_OUT_OF_MEMORY = "device_out_of_memory"
    HOST_OUT_OF_MEMORY = "host_out_of_memory"
    SIGNAL = "signal"
    TIMEOUT = "timeout"
    STOPPED = "stopped"  # by a person or `andon release`


PATTERNS = (
    ("PyTorch", r"torch\.(?:cuda\.)?OutOfMemoryError|(?:CUDA|HIP) out of memory\. Tried to"),
    ("JAX", r"RESOURCE_EXHAUSTED: (?:Out of memory|Failed to allocate)"),
    ("TensorFlow", r"OOM when allocating tensor|ResourceExhaustedError"),
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

_ASKED = r"(?:Tried to allocate|allocating|allocate) ([\d.]+ ?(?:[KMGT]i?B|bytes))"


@dataclass(frozen=True, slots=True)
class Strain:
    """A device's memory shortly before the end."""

    label: str
    used_bytes: int | None
    total_bytes: int | None

    @property
    def at_limit(self) -> bool:
        if self.used_bytes is None or not self.total_bytes:
            return False
        return 100 * self.used_bytes / self.total_bytes >= AT_LIMIT_PERCENT


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why a command ended, as a sentence with the numbers."""

    end: CommandEnding
    words: str
    reported_by: str | None = None


def complaint(tail: str) -> tuple[str, str] | None:
    """The framework that ran out of GPU memory, and its line; the last one counts."""
    for line in reversed(tail.splitlines()):
        for name, pattern in PATTERNS:
            if re.search(pattern, line):
                return name, line.strip()[:300]
    return None


def verdict(
    code: int,
    signal: int | None,
    tail: str,
    strains: Sequence[Strain],
    host_kills: int = 0,
    ended_for: str | None = None,
    asked: bool = False,
) -> Verdict:
    """The reason. An out-of-memory message counts only if the command failed: many are caught."""
    if code == 0:
        return Verdict(CommandEnding.SUCCEEDED, "finished successfully")
    if ended_for is not None:
        return Verdict(CommandEnding.TIMEOUT, ended_for)
    said = complaint(tail)
    if said is not None:
        return Verdict(CommandEnding.DEVICE_OUT_OF_MEMORY, _device_words(*said, strains), said[0])
    if SIGKILL in (signal, code - 128) and host_kills > 0:  # its own, or as a shell reports it
        words = "killed by the kernel: out of host memory (OOM killer)"
        return Verdict(CommandEnding.HOST_OUT_OF_MEMORY, words)
    if asked:
        return Verdict(CommandEnding.STOPPED, "stopped on request")
    if signal is not None:
        full = [strain for strain in strains if strain.at_limit]
        more = f"; {_full_words(full)}" if full else ""
        return Verdict(CommandEnding.SIGNAL, f"ended by signal {signal}{more}")
    full = [strain for strain in strains if strain.at_limit]
    more = f"; {_full_words(full)}" if full else ""
    return Verdict(CommandEnding.FAILED, f"exit code {code}{more}")


def _device_words(name: str, line: str, strains: Sequence[Strain]) -> str:
    asked = re.search(_ASKED, line)
    said = f"{name} tried to allocate {asked[1]} more" if asked else f"reported by {name}"
    known = [s for s in strains if s.used_bytes is not None and s.total_bytes]
    more = f"; {_full_words(known)}" if known else ""
    return f"out of GPU memory: {said}{more}"


def _size(count: int | None) -> str:
    return human_bytes(count or 0)


def _full_words(strains: Sequence[Strain]) -> str:
    return ", ".join(
        f"{title(s.label)} held {_size(s.used_bytes)} of {_size(s.total_bytes)}" for s in strains
    )
