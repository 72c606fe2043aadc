"""What is imported when: by listing modules, not by a clock."""

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from andon.jobs.folder import open_jobs_folder
from andon.jobs.starting import lock_dispatcher
from tests.standin import StandIn
from tests.support.snapshots import GOLDEN

ROOT = Path(__file__).parents[3]

HEAVY = {
    "asyncio", "click", "ctypes", "email", "http", "importlib.metadata", "psutil", "pynvml",
    "socket", "sqlite3", "ssl", "subprocess", "tomllib", "unittest", "urllib.request",
}  # fmt: skip

HEAVY_ROOMS = ("andon.explain", "andon.host", "andon.leases", "andon.model", "andon.sampling")


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
    assert not (HEAVY - {"click", "importlib.metadata"} | {"msgspec", "pathlib"}) & found
    assert not any(name.startswith(HEAVY_ROOMS) for name in found)


FOR_OTHER_COMMANDS = {
    "andon.model.execution", "andon.host.rules.attribution", "andon.settings",
    "andon.leases.rules.policy", "andon.sampling", "andon.leases.granter",
    "andon.host.processes.kin", "andon.leases.book",
    "andon.model.device", "andon.model.vendors", "andon.model.lease", "shutil",
}  # fmt: skip
"""What `submit` and `jobs` need only in rare cases, such as where no dispatcher runs."""


HAS_GPU = "import andon.cli.commands.jobs.submit as here; here.USUAL_SIGNS = ('/proc',); "
"""As on a machine that has a GPU, whatever this one has."""


@pytest.mark.process
def test_submit_and_jobs_import_little() -> None:
    """A queue with a job in it, whose dispatcher runs: what a person usually has."""
    folder = open_jobs_folder()
    held = lock_dispatcher(folder)
    assert held is not None
    for before, words in ((HAS_GPU, ["submit", "--", "true"]), ("", ["jobs"])):
        found = modules(f"{before}from andon.cli.main import run; assert run({words!r}) == 0")
        names = HEAVY - {"click"} | FOR_OTHER_COMMANDS
        heavy = {name for name in found if any(f"{name}.".startswith(f"{n}.") for n in names)}
        assert heavy == set(), words
    os.close(held)


@pytest.mark.process
def test_the_parent_of_a_reader_never_loads_the_drivers_library() -> None:
    found = modules("import andon; andon.get_gpu_monitor; import andon.app, andon.api.watch")
    assert "pynvml" not in found
    assert "andon.drivers.nvidia" not in found


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
from andon.host.processes.facts import ProcessTable, sees_host_pids
from andon.host.system import System
from andon.model.device import Process
own = os.getpid()
table = ProcessTable()
assert table.attribute([Process(own)])[0].name
assert table.usage([own])[own].memory_bytes
assert table.lineage([own])
assert System().read().memory_total_bytes
sees_host_pids()
import andon.drivers.reader, andon.app, andon.api.watch, andon.cli.main
"""
    assert "andon.host.processes.facts" in modules(f"exec({read!r})")


def test_psutil_is_a_dependency_for_other_systems_alone() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    listed = [line for line in project["dependencies"] if line.startswith("psutil")]
    assert len(listed) == 1
    assert listed[0].endswith("; sys_platform != 'linux'")


OTHER_KINDS = (
    "andon.app.servers.agent", "andon.app.servers.demo", "andon.app.servers.exporter",
    "andon.app.servers.hub", "andon.app.uplink", "andon.exporter.exports", "andon.fleet.sending",
    "andon.web.fleet.leader_duties", "andon.web.fleet.fleet_alerts", "andon.web.demo",
)  # fmt: skip


@pytest.mark.process
def test_a_plain_server_has_nothing_of_other_kinds_in_memory() -> None:
    """Nor the application, which is imported once nothing else can fail."""
    found = modules("import andon.app.servers.serving")
    assert "andon.app.servers.web" in found
    assert "andon.web.app" not in found
    assert not {name for name in found if name.startswith(OTHER_KINDS)}


@pytest.mark.process
def test_the_exporter_alone_has_neither_alerts_nor_leases_in_memory() -> None:
    found = modules("import andon.app.servers.exporter")
    rooms = ("andon.alerts", "andon.fleet", "andon.history", "andon.leases", "andon.web")
    assert not {name for name in found if name.startswith(rooms)}


# How much each command loads: numbers that only go down.

LOADED = GOLDEN / "loaded.json"
COMMANDS = {
    "--help": ["--help"],
    "status": ["status"],
    "free": ["free"],
    "ps": ["ps"],
    "who": ["who"],
    "why": ["why", "--seconds", "0"],
    "alerts": ["alerts"],
    "leases": ["leases"],
    "run": ["run", "--", "true"],
    "jobs": ["jobs"],
    "submit": ["submit", "--", "true"],
    "prompt": ["prompt"],
}
READER = "reader"  # with the driver's backend, as soon as it is asked
LIBRARY = {
    "callbacks": "import andon.callbacks.monitor, andon.callbacks.training",
    "get_gpu_monitor": "import andon; andon.get_gpu_monitor",
    "andon.run": "import andon; andon.run",
}
"""What a program that uses andon waits for."""
SERVERS = {"exporter": "import andon.app.servers.exporter"}
"""Of those that run everywhere, what they hold in memory."""
COUNT = """
import builtins, json, os, sys, threading
waits = threading.current_thread()  # what other threads load, nobody waits for
defined, found, build = [], set(), builtins.__build_class__
def counted(body, name, *bases, **named):
    if body.__module__.startswith("andon") and threading.current_thread() is waits:
        defined.append(name)
    return build(body, name, *bases, **named)
class Finder:
    def find_spec(self, name, path=None, target=None):
        if threading.current_thread() is waits:
            found.add(name)
builtins.__build_class__ = counted
sys.meta_path.insert(0, Finder())
out = os.dup(1)
os.dup2(2, 1)
{statement}
ours = sorted(name for name in found & set(sys.modules) if name.split(".")[0] == "andon")
os.write(out, json.dumps([len(defined), ours]).encode())
os._exit(0)
"""
TO_RUN = "from andon.cli.main import run; assert run({words!r}) == 0"
TO_READ = "import andon.drivers.reader as it; it.load(it.BACKENDS, 'nvidia')"


class Load(NamedTuple):
    """What a process loads of ours."""

    classes: int
    modules: list[str]


@pytest.fixture
def quiet_node(own_places: Path, library: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two idle GPUs, no lease, no server, and a queue whose dispatcher runs."""
    standin = StandIn(own_places / "standin")
    standin.write(StandIn.devices(2))
    for name, value in standin.environment(library).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("ANDON_CONFIG", os.devnull)
    monkeypatch.setenv("ANDON_PORT", "1")
    held = lock_dispatcher(open_jobs_folder())
    assert held is not None
    yield
    os.close(held)


def loaded(name: str) -> Load:
    given = {READER: TO_READ, **LIBRARY, **SERVERS}
    statement = given[name] if name in given else TO_RUN.format(words=COMMANDS[name])
    statement = HAS_GPU + statement if name == "submit" else statement
    done = subprocess.run(
        [sys.executable, "-c", COUNT.format(statement=statement)], capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return Load(*json.loads(done.stdout))


@pytest.mark.process
@pytest.mark.cold
@pytest.mark.usefixtures("quiet_node")
@pytest.mark.parametrize("name", [*COMMANDS, READER, *LIBRARY, *SERVERS])
def test_what_a_command_loads_only_becomes_less(name: str) -> None:
    """Fifty modules and a hundred classes take as long to load as a driver takes to answer."""
    found, kept = loaded(name), json.loads(LOADED.read_text())
    if os.environ.get("UPDATE_GOLDEN"):
        kept[name] = found._asdict()
        LOADED.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
    before = Load(**kept[name])
    new = sorted(set(found.modules) - set(before.modules))
    what_to_do = (
        f"{name} loads {len(found.modules)} modules and defines {found.classes} classes of ours; "
        f"it was {len(before.modules)} and {before.classes}. New: {', '.join(new) or 'none'}. "
        "Import what only some calls need where they need it. If all of them do, say in the commit "
        "what it is for, and write the new numbers: make golden"
    )
    if len(found.modules) > len(before.modules) or found.classes > before.classes:
        pytest.fail(what_to_do)


AFTER_THE_READING = """
import sys
import andon.sampling.sampler as sampler
once, read = sampler.Sampler.once, set()
def noted(self, *given, **named):
    found = once(self, *given, **named)
    read.update(sys.modules)
    return found
sampler.Sampler.once = noted
from andon.cli.main import run
assert run(["status"]) == 0
print(sorted(name for name in set(sys.modules) - read if name.startswith("andon.")))
"""


@pytest.mark.process
@pytest.mark.usefixtures("quiet_node")
def test_status_imports_nothing_after_it_has_read_the_devices() -> None:
    """It does so while the driver is opened, which takes as long."""
    done = subprocess.run(
        [sys.executable, "-c", AFTER_THE_READING], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"
