"""NVIDIA devices through the nvidia-smi command, where NVML itself cannot be loaded."""

from andon.drivers.nvidia_smi.backend import NvidiaSmi

__all__ = ["NvidiaSmi"]
