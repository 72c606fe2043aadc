"""What is imported when: by listing modules, not by a clock."""

import json
import subprocess
import sys

import pytest

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


def test_importing_andon_imports_nothing_heavy() -> None:
    found = modules("import andon")
    assert not HEAVY & found
    assert {name for name in found if name.startswith("andon")} == {"andon", "andon.version"}


def test_help_imports_only_click() -> None:
    found = modules("from andon.cli.main import run; run(['--help'])")
    assert not (HEAVY - {"click", "importlib.metadata"}) & found
    assert not any(name.startswith(("andon.engine", "andon.core", "andon.host")) for name in found)


def test_the_parent_of_a_reader_never_loads_the_drivers_library() -> None:
    found = modules("import andon; andon.get_gpu_monitor; import andon.app, andon.library")
    assert "pynvml" not in found
    assert "andon.backends.nvidia" not in found


@pytest.mark.parametrize("name", ["pynvml", "psutil"])
def test_status_itself_does_not_import_what_the_reader_needs(name: str) -> None:
    found = modules("import andon.cli.status, andon.app")
    assert name not in found


def test_the_servers_routes_come_without_the_book_whose_locks_not_every_system_has() -> None:
    found = modules("import andon.web.app, andon.web.api, andon.web.live")
    assert "andon.web.leases" in found
    assert not {name for name in found if name.startswith("andon.leases")}
