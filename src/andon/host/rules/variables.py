"""Which variables of a process's environment may be shown with their values."""

from collections.abc import Mapping
from fnmatch import fnmatchcase

from andon.model.redaction import is_secret_name, redact_text
from andon.units import printable

SHOWN = (
    "CUDA_*", "NVIDIA_*", "NCCL_*", "SLURM_*", "ANDON_*", "OMP_*", "MKL_*", "TORCH_*", "PYTORCH_*",
    "TORCHELASTIC_*", "VLLM_*", "TF_*", "XLA_*", "JAX_*", "HIP_*", "ROCR_*", "HSA_*", "ROCM_*",
    "ZE_*", "GPU_*", "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR",
    "MASTER_PORT", "PATH", "PWD", "HOME", "USER", "VIRTUAL_ENV", "CONDA_DEFAULT_ENV", "LANG",
)  # fmt: skip
"""Names, or patterns of names, whose values say how a program uses a device and hold no secret."""
LONGEST_VALUE = 400


def shown_environment(
    variables: Mapping[str, str],
) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
    """Returns the variables with values, and the names of all others; both in order."""
    shown = {
        name: redact_text(printable(value))[:LONGEST_VALUE]
        for name, value in variables.items()
        if any(fnmatchcase(name, one) for one in SHOWN) and not is_secret_name(name)
    }
    others = sorted(printable(name) for name in variables if name not in shown)
    return tuple(sorted(shown.items())), tuple(others)
