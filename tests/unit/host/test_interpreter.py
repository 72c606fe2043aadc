"""Processes and folders of our own: one way to start Python, one way to make a private folder."""

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from andon.host.files import make_private
from andon.host.interpreter import isolated_command, module_environment, process_command
from andon.standalone.scribe import open_new
from tests.support.sources import sources

STARTS_PYTHON = {"host/interpreter.py"}
READS_ITS_PATH = {"host/libraries.py"}
MAKES_FOLDERS = {
    "host/files.py",
    "leases/book/places.py",  # the book is for everybody
    "standalone/scribe.py",  # a script without andon
    "standalone/job_supervisor.py",  # another
    "jobs/folder.py",  # whoever makes the folder of a number has the number
}


def places_of(attribute: str) -> Iterator[str]:
    """The modules that use an attribute of this name, as in `sys.executable` or `path.mkdir`."""
    for path, text in sources().items():
        for node in ast.walk(ast.parse(text)) if f".{attribute}" in text else ():
            if isinstance(node, ast.Attribute) and node.attr == attribute:
                yield path


@pytest.mark.slow
def test_python_is_started_in_one_place_only() -> None:
    assert set(places_of("executable")) == STARTS_PYTHON | READS_ITS_PATH


def test_folders_are_made_in_one_place_only() -> None:
    assert {*places_of("mkdir"), *places_of("makedirs")} == MAKES_FOLDERS


@pytest.mark.process
def test_every_python_of_ours_ignores_the_current_folder(tmp_path: Path) -> None:
    script = tmp_path / "other" / "script.py"
    script.parent.mkdir()
    script.write_text("import subprocess")
    for name in ("subprocess", "json", "code"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(66)")
    for command in (process_command("function", "0", "1"), isolated_command(str(script))):
        done = subprocess.run(command, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True)
        assert done.returncode == 0, done.stderr
        assert {"-P", "-I"} & set(command)
    bare = subprocess.run([sys.executable, "-m", "json.tool"], cwd=tmp_path, check=False)
    assert bare.returncode != 0  # so the test above can fail


@pytest.mark.process
@pytest.mark.parametrize("theirs", [None, "/of/the/user", "/of/the/user:/and/another"])
def test_a_process_of_ours_imports_as_its_starter_and_leaves_the_environment_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, theirs: str | None
) -> None:
    code = """
import os, sys
from andon.process import take_path
take_path()
import json, types
print(json.dumps([sys.path, types.__file__, os.environ.get("PYTHONPATH")]))
"""
    (tmp_path / "added").mkdir()
    (tmp_path / "added" / "types.py").write_text("raise SystemExit(66)")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)  # the current folder, as for `python -m`
    monkeypatch.syspath_prepend("added")
    base = {"PYTHONPATH": theirs} if theirs is not None else {}
    environment = module_environment(base)
    command = [sys.executable, "-P", "-S", "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    path, types, left = json.loads(done.stdout or "[[], 0, 0]")
    assert types == os.path.join(os.path.dirname(os.__file__), "types.py"), done.stderr  # noqa: PTH118, PTH120
    assert str(tmp_path / "added") in path
    assert not {"", ".", str(tmp_path), "added"} & set(path)
    assert path.index(os.path.dirname(os.__file__)) < path.index(str(tmp_path / "added"))  # noqa: PTH120
    assert left == theirs


@pytest.mark.parametrize("mask", [0o000, 0o002, 0o022, 0o077, 0o277, 0o777])
def test_a_private_folder_is_private_whatever_the_umask(tmp_path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        make_private(tmp_path / "a" / "b" / "c")
    finally:
        os.umask(before)
    assert [f.stat().st_mode & 0o777 for f in sorted(tmp_path.rglob("*"))] == [0o700] * 3


def test_a_file_in_the_place_of_a_private_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    for path in (tmp_path / "a", tmp_path / "a" / "b"):
        with pytest.raises(OSError):
            make_private(path)


@pytest.mark.parametrize("mask", [0o000, 0o002])
def test_the_record_of_a_run_makes_a_state_folder_that_a_server_accepts(
    state_folder: Path, mask: int
) -> None:
    from andon.host.state.user_folder import open_state_folder

    before = os.umask(mask)
    try:
        os.close(open_new(str(state_folder / "andon" / "runs" / "one.jsonl")))
        folder = open_state_folder()
    finally:
        os.umask(before)
    for made in (folder, folder.parent, folder / "runs"):
        assert made.stat().st_mode & 0o777 == 0o700


@pytest.mark.process
@pytest.mark.parametrize(("backend", "uses_site"), [("sim", False), ("amd", True)])
def test_a_reader_starts_without_site_and_uses_it_for_libraries_of_others(
    backend: str, uses_site: bool
) -> None:
    code = f"""
import sys
from andon.process import take_path
take_path()
import msgspec
from andon.drivers.reader import _loaded
_loaded({backend!r})
print("site" in sys.modules)
"""
    command = [sys.executable, "-P", "-S", "-c", code]
    done = subprocess.run(command, env=module_environment(), capture_output=True, text=True)
    assert done.stdout.split() == [str(uses_site)], done.stderr
