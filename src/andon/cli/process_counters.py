"""CPU and host memory of processes, from two readings."""

import time
from pathlib import Path

from andon.cli.show.process_rows import HostUsage, between


def host_use(pids: set[int], seconds: float, root: str) -> dict[int, HostUsage]:
    """CPU and host memory of some processes, from two readings this far apart."""
    from andon.host.processes.facts import ProcessTable

    table = ProcessTable(Path(root))
    first, began = table.usage(pids), time.monotonic()
    if pids:
        time.sleep(seconds)
    return between(first, table.usage(pids), time.monotonic() - began)
