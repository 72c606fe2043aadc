"""A recording of the farm, for whoever plays one."""

import time
from pathlib import Path

from msgspec.structs import replace

from andon.model.wire import dumps, snapshot_to_json
from tests.support.snapshots import farm


def recording_of(path: Path, seconds: int = 600) -> Path:
    """Writes one snapshot of each second from now on."""
    now = time.time()
    shots = (replace(farm(), at=now + second) for second in range(seconds))
    path.write_text("".join(dumps(snapshot_to_json(one)) + "\n" for one in shots))
    return path
