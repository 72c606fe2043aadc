"""How many processes the kernel's OOM killer has killed: host memory, not a device's."""

from pathlib import Path

VMSTAT = Path("/proc/vmstat")


def host_kills() -> int:
    """Returns how many processes the kernel has killed for lack of memory since boot; 0 if it does
    not count them."""
    try:
        for line in VMSTAT.read_text("ascii").splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    except (OSError, ValueError):
        return 0
    return 0
