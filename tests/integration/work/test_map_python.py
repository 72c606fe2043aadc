"""`andon.map` in a program, over the stand-in driver."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.leasing import held, records
from tests.standin import StandIn

MODULE = """
import os
loaded = os.getpid()

def square(number):
    print("working on", number)
    if number == 13:
        raise ValueError("unlucky")
    return number * number, os.environ.get("CUDA_VISIBLE_DEVICES", ""), loaded
"""


@pytest.fixture(autouse=True)
def _book(node: StandIn, own_places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node.write(StandIn.devices(2))
    monkeypatch.setenv("PYTHONPATH", f"{own_places}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    (own_places / "work.py").write_text(MODULE)


def program(text: str) -> Any:
    """What it prints as its last line, as JSON."""
    begins = "import json, andon\nfrom work import square\n"
    done = subprocess.run(
        [sys.executable, "-c", begins + text], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_results_come_in_order_from_one_process_per_gpu(tmp_path: Path) -> None:
    found = program("print(json.dumps(andon.map(square, range(6))))")
    assert [row[0] for row in found] == [0, 1, 4, 9, 16, 25]
    by_device = {row[1]: row[2] for row in found}
    assert len({row[2] for row in found}) == len(by_device), "each stays for all its items"
    assert all(uuid.startswith("GPU-") for uuid in by_device)
    assert not held()
    [record] = records(tmp_path / "state")
    assert (record[0]["kind"], record[0]["name"], record[-1]["state"]) == (
        "map", "square", "succeeded",
    )  # fmt: skip
    assert "working on 3" in {one.get("output") for one in record if one["event"] == "item"}


def test_a_failure_is_raised_or_stands_in_its_place() -> None:
    text = """
try:
    andon.map(square, [1, 13, 2], gpus=1)
except ValueError as error:
    raised = str(error)
kept = andon.map(square, [1, 13, 2], gpus=1, on_error="return")
alone = andon.map(lambda n: n + 1, [1, 2], cpu=2)
print(json.dumps([raised, repr(kept[1]), kept[2][0], alone]))
"""
    assert program(text) == ["unlucky", "ValueError('unlucky')", 4, [2, 3]]
    assert not held()
