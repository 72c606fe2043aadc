"""Types that several threads read by for the first time: msgspec crashes without `prepared`."""

import subprocess
import sys

import pytest

ROUNDS = """
import sys, threading
from typing import Annotated
from msgspec import Meta, defstruct
from andon.model.codec import read

sys.setswitchinterval(1e-6)
names = [f"f{number}" for number in range(60)]
for _ in range(40):
    kind = Annotated[float, Meta(ge=0.0)] | None
    inner = defstruct("Inner", [(name, kind, None) for name in names])
    outer = defstruct("Outer", [("items", list[inner])])
    items, gate = [dict.fromkeys(names, 1.0)] * 3, threading.Barrier(4)

    def run(number):
        gate.wait()
        read(outer, {"items": items}) if number % 2 else read(list[inner], items)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    [one.start() for one in threads]
    [one.join() for one in threads]
"""


@pytest.mark.cold
def test_threads_may_read_by_a_type_that_is_new_to_all() -> None:
    done = subprocess.run([sys.executable, "-c", ROUNDS], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
