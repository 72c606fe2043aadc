"""NVIDIA devices through NVML."""

from andon.drivers.nvidia.backend import Nvidia

__all__ = ["Nvidia"]
