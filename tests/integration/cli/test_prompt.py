"""`andon prompt` beside a real server: the line, and how little it loads."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.conftest import andon
from tests.integration.serving import serving
from tests.support.waiting import wait_for

COUNT = """
import sys
from andon.cli.main import run
assert run({words!r}) == 0
print(sum(name.split(".")[0] == "andon" for name in sys.modules), file=sys.stderr)
"""


def loaded(port: int, *words: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", COUNT.format(words=list(words))],
        capture_output=True, text=True, check=True, env={**os.environ, "ANDON_PORT": str(port)},
    )  # fmt: skip
    return int(done.stderr.split()[-1])


def test_beside_a_server_it_shows_what_is_free_and_loads_less_than_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with serving(tmp_path, simulate=4) as served:
        monkeypatch.setenv("ANDON_PORT", str(served.port))
        wait_for(lambda: andon("prompt").out, what="the line")  # the first answer takes longest
        done = andon("prompt")
        assert (done.code, done.err) == (0, "")
        assert done.out.startswith("SIMULATED ")
        assert "free" in done.out
        shown = andon("prompt", "--json").json()
        assert shown["text"] == done.out.strip()
        assert loaded(served.port, "prompt") < loaded(served.port, "status")
    assert andon("prompt").out == ""
