"""Programs of Ray whose tasks are decorated, on a real one of two nodes."""

import subprocess
from typing import Any

import pytest

from tests.integration.leasing import records
from tests.ray import programs
from tests.ray.conftest import BIN, PORT, RealRay

pytestmark = [pytest.mark.ray, pytest.mark.timeout(400)]


def run_program(ray: RealRay, program: str, run: str = "drivrrun") -> list[str]:
    """Runs a driver; returns its lines."""
    done = subprocess.run(
        [str(BIN / "python"), "-c", program], capture_output=True, text=True, timeout=240,
        check=False,
        env={**ray.environment, "RAY_ADDRESS": f"127.0.0.1:{PORT}", "ANDON_RUN": run},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()


def parts_of(ray: RealRay, run: str) -> list[list[dict[str, Any]]]:
    return [lines for lines in records(ray.folder / "state") if lines[0]["parent"] == run]


def test_the_records_of_tasks_on_two_nodes_sum_to_the_drivers(ray: RealRay) -> None:
    (line,) = run_program(ray, programs.PARTS, "drivparts")
    found = parts_of(ray, "drivparts")
    assert len(found) == 8
    print(line)
