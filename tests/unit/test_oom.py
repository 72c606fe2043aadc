"""What ended a command: the words of every framework, and what they are not confused with."""

from pathlib import Path

import pytest

from andon.core.runs.oom import Strain, complaint, memory_growth, memory_numbers, verdict
from andon.model.run import RunState
from andon.units import GIB
from tests.conftest import REPOSITORY

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


@pytest.mark.parametrize(("name", "line"), SAID)
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
    found = verdict(1, None, line, [Strain("3", 78 * GIB, 80 * GIB)])
    assert found.words == (
        "out of GPU memory: PyTorch tried to allocate 20.00 GiB more; "
        "GPU 3 held 78.0 GiB of 80.0 GiB"
    )


def test_a_complaint_that_was_caught_is_none() -> None:
    assert verdict(0, None, SAID[0][1], []).end is RunState.SUCCEEDED


def test_other_ends_are_told_apart() -> None:
    full = [Strain("0", 79 * GIB, 80 * GIB)]
    assert verdict(137, 9, "", [], host_kills=1).end is RunState.HOST_OUT_OF_MEMORY
    assert verdict(137, None, "", [], host_kills=1).end is RunState.HOST_OUT_OF_MEMORY
    assert verdict(137, 9, "", [], host_kills=0).end is RunState.SIGNAL
    assert verdict(137, None, "", [], host_kills=0).end is RunState.FAILED
    assert verdict(139, 11, "", full).words == "ended by signal 11; GPU 0 held 79.0 GiB of 80.0 GiB"
    assert verdict(143, 15, "", [], ended_for="lease abc has ended").end is RunState.TIMEOUT
    assert verdict(130, 2, "", [], asked=True).end is RunState.STOPPED
    assert verdict(3, None, "", full).words == "exit code 3; GPU 0 held 79.0 GiB of 80.0 GiB"
    assert not Strain("0", 70 * GIB, 80 * GIB).at_limit
    assert not Strain("0", None, 80 * GIB).at_limit
