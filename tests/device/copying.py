"""Copies host memory to the first CUDA device: `python -m tests.device.copying SECONDS`."""

import importlib
import json
import os
import subprocess
import sys
import time

READY = "ready"
START_SECONDS = 90.0  # the first import of torch on a cold disk
BLOCK_BYTES = 1 << 28


def main(seconds: float) -> None:
    try:
        torch = importlib.import_module("torch")
    except ImportError as exc:
        print(f"torch cannot be imported: {exc}", flush=True)
        return
    if not torch.cuda.is_available():
        print("torch sees no CUDA device", flush=True)
        return
    source = torch.empty(BLOCK_BYTES, dtype=torch.uint8, pin_memory=True)
    target = torch.empty(BLOCK_BYTES, dtype=torch.uint8, device="cuda")
    target.copy_(source, non_blocking=True)
    torch.cuda.synchronize()
    print(READY, flush=True)
    parent, began, copied = os.getppid(), time.monotonic(), 0
    while time.monotonic() < began + seconds and os.getppid() == parent:
        for _ in range(8):
            target.copy_(source, non_blocking=True)
        torch.cuda.synchronize()
        copied += 8 * BLOCK_BYTES
    print(json.dumps({"bytes_per_second": copied / (time.monotonic() - began)}), flush=True)


def start(seconds: float) -> "subprocess.Popen[str]":
    """The copying process; its first line is `READY`, or why it cannot copy."""
    command = [sys.executable, "-m", "tests.device.copying", f"{seconds:g}"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


if __name__ == "__main__":
    main(float(sys.argv[1]))
