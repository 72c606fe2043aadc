"""Ten minutes in which two months of the calendar go by: nothing that runs for long grows."""

import subprocess
import sys
from pathlib import Path

import pytest

HOME = Path(__file__).parents[3]
MINUTES = 10


@pytest.mark.long
@pytest.mark.timeout(120 * MINUTES)
def test_two_months_leave_servers_as_they_were() -> None:
    words = [sys.executable, "-m", "bench.soak", "--minutes", str(MINUTES)]
    done = subprocess.run(words, cwd=HOME, capture_output=True, text=True)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
