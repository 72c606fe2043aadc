"""A home that two machines share, and two servers on one machine's state."""

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from tests.conftest import need
from tests.integration.conftest import Outcome
from tests.integration.parts import free_port
from tests.integration.serving import Served, andon, serving
from tests.support.homes import node_state
from tests.support.waiting import wait_for

IDS = ("1111111111111111aaaaaaaaaaaaaaaa", "2222222222222222bbbbbbbbbbbbbbbb")
ON_MACHINE = 'mount --bind "$1" /etc/machine-id && shift && exec "$@"'


def machine(folder: Path, name: str) -> tuple[str, ...]:
    """Runs a command as on a machine with this id."""
    need("unshare")
    if not Path("/etc/machine-id").exists():
        pytest.skip("there is no /etc/machine-id that another one could cover")
    (folder / name).write_text(f"{name}\n")
    return "unshare", "--mount", "sh", "-c", ON_MACHINE, "sh", str(folder / name)


def andon_on(on: tuple[str, ...], state: Path, *arguments: str) -> Outcome:
    done = subprocess.run(
        [*on, sys.executable, "-m", "andon.cli", *arguments],
        capture_output=True, text=True, timeout=120,
        env={**os.environ, "XDG_STATE_HOME": str(state)},
    )  # fmt: skip
    return Outcome(done.returncode, done.stdout, done.stderr)


def written(served: Served) -> bool:
    return int(served.ask("/api/health").json()["store"]["written_snapshots"]) > 0


@pytest.mark.usefixtures("node", "book_folder")
def test_two_machines_on_one_home_serve_record_and_find_their_own(
    tmp_path: Path,
) -> None:
    state = tmp_path / "state"
    machines = [machine(tmp_path, name) for name in IDS]
    with ExitStack() as stack:
        served = [stack.enter_context(serving(state, simulate=None, wrapped=on)) for on in machines]
        for on, own in zip(machines, served, strict=True):
            link = andon_on(on, state, "open", "--print")
            assert link.out.startswith(f"{own.url}/#code="), link.err
            wait_for(partial(written, own))
    for on, name in zip(machines, IDS, strict=True):
        folder = state / "andon" / "nodes" / name[:12]
        assert {"audit.jsonl", "history.db", "server.lock"} <= {p.name for p in folder.iterdir()}
        assert len((folder / "audit.jsonl").read_text().splitlines()) >= 1
        assert andon_on(on, state, "history", "--json").code == 0
    assert {p.name for p in (state / "andon").iterdir()} == {"token", "nodes"}


def test_a_second_server_is_refused_and_after_a_kill_of_the_first_it_serves(
    tmp_path: Path,
) -> None:
    with serving(tmp_path, "--no-history", simulate=1) as first:
        again = ("serve", "--simulate", "1", "--port", str(free_port()))
        done = andon(tmp_path, *again)
        assert done.code == 6
        assert f"pid {first.process.pid}, {first.url}" in done.err
        first.process.kill()
        first.process.wait()
        lock = node_state(tmp_path) / "server.lock"
        assert lock.read_text() == str(first.process.pid), "it left everything behind"
        with serving(tmp_path, "--no-history", simulate=1) as second:
            said = json.loads((lock.parent / "server.json").read_text())
            assert (said["pid"], said["url"]) == (second.process.pid, second.url)
            assert lock.read_text() == str(second.process.pid)
            assert andon(tmp_path, "open", "--print").out.startswith(second.url)
