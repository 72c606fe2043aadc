"""What is imported when: by listing modules, not by a clock."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from andon.engine.jobs.folder import open_jobs_folder
from andon.engine.jobs.starting import lock_dispatcher

ROOT = Path(__file__).parents[2]

HEAVY = {
    "asyncio", "click", "ctypes", "email", "http", "importlib.metadata", "psutil", "pynvml",
    "socket", "sqlite3", "ssl", "subprocess", "tomllib", "unittest", "urllib.request",
}  # fmt: skip


def modules(statement: str) -> set[str]:
    code = f"import sys; sys.path[:] = {sys.path!r}; {statement}; import json"
    code += "; print(json.dumps(sorted(sys.modules)))"
    # -S: what an environment's own start-up files import is not ours.
    command = [sys.executable, "-S", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.process
def test_importing_andon_imports_nothing_heavy() -> None:
    found = modules("import andon")
    assert not HEAVY & found
    assert {name for name in found if name.startswith("andon")} == {"andon", "andon.version"}


@pytest.mark.process
def test_help_imports_only_click() -> None:
    found = modules("from andon.cli.main import run; run(['--help'])")
    assert not (HEAVY - {"click", "importlib.metadata"}) & found
    assert not any(name.startswith(("andon.engine", "andon.core", "andon.host")) for name in found)


FOR_OTHER_COMMANDS = {
    "andon.core.executing.order", "andon.core.processes.attribution", "andon.core.settings",
    "andon.core.sharing.policy", "andon.engine.sampling", "andon.engine.sharing", "andon.host.kin",
    "andon.leases", "andon.model.device", "andon.model.vendors", "andon.model.work", "shutil",
}  # fmt: skip
"""What `submit` and `jobs` need only in rare cases, such as where no dispatcher runs."""


@pytest.mark.process
def test_submit_and_jobs_import_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A queue with a job in it, whose dispatcher runs: what a person usually has."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    folder = open_jobs_folder()
    held = lock_dispatcher(folder)
    assert held is not None
    # As on a machine that has a GPU, whatever this one has.
    here = "import andon.cli.commands.jobs.submit as here; here.USUAL_SIGNS = ('/proc',); "
    for before, words in ((here, ["submit", "--", "true"]), ("", ["jobs"])):
        found = modules(f"{before}from andon.cli.main import run; assert run({words!r}) == 0")
        names = HEAVY - {"click"} | FOR_OTHER_COMMANDS
        heavy = {name for name in found if any(f"{name}.".startswith(f"{n}.") for n in names)}
        assert heavy == set(), words
    os.close(held)


@pytest.mark.process
def test_the_parent_of_a_reader_never_loads_the_drivers_library() -> None:
    found = modules("import andon; andon.get_gpu_monitor; import andon.app, andon.library")
    assert "pynvml" not in found
    assert "andon.backends.nvidia" not in found


@pytest.mark.process
@pytest.mark.parametrize("name", ["pynvml", "psutil"])
def test_status_itself_does_not_import_what_the_reader_needs(name: str) -> None:
    found = modules("import andon.cli.commands.watch.status, andon.app")
    assert name not in found


@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="psutil is a dependency elsewhere")
def test_linux_is_read_without_psutil_which_is_not_installed_there() -> None:
    read = """
sys.modules["psutil"] = None  # any import of it fails
import os
from andon.host.processes import ProcessTable, sees_host_pids
from andon.host.system import System
from andon.model.device import Process
own = os.getpid()
table = ProcessTable()
assert table.attribute([Process(own)])[0].name
assert table.usage([own])[own].memory_bytes
assert table.lineage([own])
assert System().read().memory_total_bytes
sees_host_pids()
import andon.reader, andon.app, andon.library, andon.cli.main
"""
    assert "andon.host.processes" in modules(f"exec({read!r})")


def test_psutil_is_a_dependency_for_other_systems_alone() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    listed = [line for line in project["dependencies"] if line.startswith("psutil")]
    assert len(listed) == 1
    assert listed[0].endswith("; sys_platform != 'linux'")


@pytest.mark.process
def test_the_servers_routes_come_without_the_book_whose_locks_not_every_system_has() -> None:
    found = modules("import andon.web.app, andon.web.routes.api, andon.web.live.events")
    assert "andon.web.routes.leases" in found
    assert not {name for name in found if name.startswith("andon.leases")}
