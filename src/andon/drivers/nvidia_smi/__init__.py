"""NVIDIA devices through the nvidia-smi command, where NVML itself cannot be loaded."""
