"""NVIDIA devices through NVML."""

from andon.backends.nvidia.backend import Nvidia

__all__ = ["Nvidia"]
