"""A driver call that really cannot be interrupted: the person still gets an answer."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY, need


def test_status_returns_although_a_driver_call_cannot_be_killed(
    library: Path, tmp_path: Path
) -> None:
    need("unshare", "mount", "mkfs.ext4", "fsfreeze", "truncate")
    if os.geteuid() != 0:
        pytest.skip("mounting and freezing a file system needs root")
    command = [
        "unshare",
        "--mount",
        sys.executable,
        "-m",
        "tests.integration.frozen",
        str(tmp_path),
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY, timeout=120)
    assert done.returncode == 0, done.stderr
    happened = json.loads(done.stdout)
    assert happened["stuck_readers"], "the call was not uninterruptible: this proves nothing"
    assert happened["returned_by_itself"]
    assert happened["code"] == 0
    states = {d["index"]: d["state"] for d in happened["snapshot"]["devices"]}
    assert states == {5: "stale"} | dict.fromkeys((0, 1, 2, 3, 4, 6, 7), "ok")
