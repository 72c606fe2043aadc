"""What ended a command: the words of every framework, and what they are not confused with."""

from pathlib import Path

import pytest

from andon.model.run.record import RunState
from andon.runs.rules.oom import MemoryBeforeEnd, complaint, memory_growth, memory_numbers, verdict
from andon.units import GIB
from tests.conftest import REPOSITORY
from tests.support.rows import rows

RECORDED = sorted((REPOSITORY / "tests" / "recorded" / "oom").glob("*.txt"))

SAID = [
    ("PyTorch", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0"),
    ("PyTorch", "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 MiB"),
    ("PyTorch", "RuntimeError: CUDA out of memory. Tried to allocate 3.81 GiB (GPU 0; 139 GiB"),
    ("PyTorch", "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 8.00 GiB."),
    ("JAX", "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while "
            "trying to allocate 68719476736 bytes."),
    ("TensorFlow", "tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when "
                   "allocating tensor with shape[4096,4096,512] and type float"),
    ("CuPy", "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 8,589,934,592 bytes"),
    ("SGLang", "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static."),
    ("cuBLAS", "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate`"),
    ("CUDA", "RuntimeError: CUDA error: out of memory"),
    ("CUDA", "CUDA_ERROR_OUT_OF_MEMORY: out of memory"),
    ("CUDA", "cuMemAlloc failed: cudaErrorMemoryAllocation"),
    ("CUDA", "ggml_backend_cuda_buffer_type_alloc_buffer: cudaMalloc failed: out of memory"),
    ("HIP", "RuntimeError: HIP error: out of memory"),
    ("HIP", "hipErrorOutOfMemory"),
    ("vLLM", "ValueError: No available memory for the cache blocks. Try increasing "
             "`gpu_memory_utilization` when initializing the engine."),
    ("vLLM", "ValueError: Free memory on device (3.2/79.1 GiB) on startup is less than desired "
             "GPU memory utilization (0.9, 71.19 GiB)."),
]  # fmt: skip


@rows(("name", "line"), SAID)
def test_every_framework_is_understood(name: str, line: str) -> None:
    tail = f"Traceback (most recent call last):\n  File x\n{line}\nsome last words\n"
    found = verdict(1, None, tail, [])
    assert (found.end, found.reported_by) == (RunState.DEVICE_OUT_OF_MEMORY, name)


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name)
def test_what_was_recorded_on_a_real_device_is_understood(path: Path) -> None:
    """The name begins with who said it: `pytorch-h200.txt`."""
    said = complaint(path.read_text(encoding="utf-8", errors="replace"))
    assert said is not None
    assert said[0].lower() == path.name.partition("-")[0]


@pytest.mark.parametrize(
    "line",
    [
        "MemoryError",
        "OSError: [Errno 12] Cannot allocate memory",
        "CUDA error: an illegal memory access was encountered",
        "my disk is out of memory cards",
    ],
)
def test_other_troubles_are_not_taken_for_it(line: str) -> None:
    assert verdict(1, None, line, []).end is RunState.FAILED


def test_the_numbers_are_told() -> None:
    line = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has"
    found = verdict(1, None, line, [MemoryBeforeEnd("3", 78 * GIB, 80 * GIB)])
    assert found.message == (
        "out of GPU memory: PyTorch tried to allocate 20.00 GiB more; "
        "GPU 3 held 78.0 GiB of 80.0 GiB"
    )


def test_a_complaint_that_was_caught_is_none() -> None:
    assert verdict(0, None, SAID[0][1], []).end is RunState.SUCCEEDED


def test_other_ends_are_told_apart() -> None:
    full = [MemoryBeforeEnd("0", 79 * GIB, 80 * GIB)]
    assert verdict(137, 9, "", [], host_kills=1).end is RunState.HOST_OUT_OF_MEMORY
    assert verdict(137, None, "", [], host_kills=1).end is RunState.HOST_OUT_OF_MEMORY
    assert verdict(137, 9, "", [], host_kills=0).end is RunState.SIGNAL
    assert verdict(137, None, "", [], host_kills=0).end is RunState.FAILED
    assert (
        verdict(139, 11, "", full).message == "ended by signal 11; GPU 0 held 79.0 GiB of 80.0 GiB"
    )
    assert verdict(143, 15, "", [], ended_for="lease abc has ended").end is RunState.TIMEOUT
    assert verdict(130, 2, "", [], requested=True).end is RunState.STOPPED
    assert verdict(3, None, "", full).message == "exit code 3; GPU 0 held 79.0 GiB of 80.0 GiB"
    assert not MemoryBeforeEnd("0", 70 * GIB, 80 * GIB).at_limit
    assert not MemoryBeforeEnd("0", None, 80 * GIB).at_limit


TORCH = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total "
    "capacity of 139.81 GiB of which 3.31 GiB is free. Process 77 has 100.02 GiB memory in use. "
    "Including non-PyTorch memory, this process has 36.48 GiB memory in use. Of the allocated "
    "memory 36.00 GiB is allocated by PyTorch, and 21.50 MiB is reserved by PyTorch but "
    "unallocated."
)


def test_the_numbers_of_the_message_are_kept() -> None:
    found = memory_numbers(TORCH, [], "step")
    assert found is not None
    assert (found.reported_by, found.growth) == ("PyTorch", "step")
    assert found.wanted_bytes == 20 * GIB
    assert found.free_bytes == round(3.31 * GIB)
    assert found.held_by_run_bytes == round(36.48 * GIB)
    assert found.held_by_others_bytes == round(100.02 * GIB)
    assert found.held_by_cache_bytes == round(21.5 * 2**20)


def test_what_others_hold_is_what_is_left() -> None:
    found = memory_numbers(TORCH.replace("Process 77 has 100.02 GiB memory in use. ", ""), [], None)
    assert found is not None
    assert found.held_by_others_bytes == pytest.approx((139.81 - 3.31 - 36.48) * GIB)


def test_what_the_message_does_not_say_comes_from_the_samples_or_is_unknown() -> None:
    line = "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 68719476736 bytes."
    memory = [MemoryBeforeEnd("0", 10 * GIB, 80 * GIB), MemoryBeforeEnd("1", 78 * GIB, 80 * GIB)]
    found = memory_numbers(line, memory, None)
    assert found is not None
    assert (found.wanted_bytes, found.free_bytes) == (64 * GIB, 2 * GIB)
    assert (found.held_by_run_bytes, found.held_by_others_bytes) == (None, None)
    assert memory_numbers("Killed", memory, None) is None


@pytest.mark.parametrize(
    ("curve", "growth"),
    [
        ([10 + n for n in range(30)], "leak"),
        ([0, 5, *[40.0] * 20, 41], "step"),
        ([0, 10, *[60, 50] * 10, 78], "step"),
        ([20.0] * 25 + [60.0], "step"),
        ([20 + n // 2 for n in range(60)], "leak"),
        ([10, 70], None),
    ],
)
def test_a_leak_is_told_from_one_large_step(curve: list[float], growth: str | None) -> None:
    assert memory_growth([point * GIB for point in curve], 80 * GIB) == growth
