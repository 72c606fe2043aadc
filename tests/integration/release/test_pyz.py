"""andon.pyz unpacks itself safely, once, wherever it can; with a small andon in it."""

import ast
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest
from dev.release import pyz

from tests.support.disks import disk, fill, mount
from tests.support.waiting import wait_for

__all__ = ["disk"]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it is for Linux")

AT = 1_700_000_000
ENTRY = """\
import json, os, sys
def main():
    print(json.dumps([__file__, sys.argv[1:]]))
    sys.exit(int(os.environ.get("ENDS", "0")))
"""
CORE = f"msgspec/_core{EXTENSION_SUFFIXES[0]}"
FILES = {
    "andon/__init__.py": b"",
    "andon/cli/__init__.py": b"",
    "andon/cli/entry.py": ENTRY.encode(),
    CORE: b"compiled",
    "start_andon.py": pyz.START.encode(),
}


class OneFile:
    """An andon.pyz with its own places."""

    def __init__(self, folder: Path, files: Mapping[str, bytes]) -> None:
        self.cache, self.shared = folder / "cache", folder / "shared"
        self.cache.mkdir(parents=True)
        self.shared.mkdir()
        self.path = self.write(files)

    def write(self, files: Mapping[str, bytes]) -> Path:
        start = pyz.beginning().replace('("/var/tmp", "/tmp")', repr((str(self.shared),)))
        assert str(self.shared) in start
        return pyz.archive(files, AT, self.cache.parent / "andon.pyz", start)

    def begin(self, *words: str, **env: str) -> "subprocess.Popen[str]":
        command = [sys.executable, str(self.path), *words]
        env = {**os.environ, "XDG_CACHE_HOME": str(self.cache), **env}
        pipe = subprocess.PIPE
        return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=env)

    def run(self, *words: str, **env: str) -> tuple[int, str, str]:
        process = self.begin(*words, **env)
        out, errors = process.communicate()
        return process.returncode, out, errors

    @property
    def own(self) -> Path:
        return self.cache / "andon-pyz"

    @property
    def common(self) -> Path:
        return self.shared / f"andon-pyz-{os.geteuid()}"

    def unpacked(self, place: Path | None = None) -> Path:
        """The one folder of a version, beside which nothing is left."""
        (folder,) = (place or self.own).iterdir()
        return folder


@pytest.fixture
def one(tmp_path: Path) -> OneFile:
    return OneFile(tmp_path / "one", FILES)


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != "manifest" and "__pycache__" not in path.parts
    }


def test_it_unpacks_once_and_runs_from_there(one: OneFile) -> None:
    code, out, errors = one.run("status", "--all", ENDS="7")
    folder = one.unpacked()
    assert (code, out, errors) == (7, f'["{folder}/andon/cli/entry.py", ["status", "--all"]]\n', "")
    assert contents(folder) == FILES
    assert [oct(path.stat().st_mode & 0o777) for path in (one.own, folder)] == ["0o700"] * 2
    before = folder.stat().st_ino
    assert one.run() == (0, f'["{folder}/andon/cli/entry.py", []]\n', "")
    assert one.unpacked().stat().st_ino == before


def test_nothing_of_the_current_folder_is_run(
    one: OneFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("json.py", "andon.py", "hashlib.py"):
        (tmp_path / name).write_text("raise SystemExit('run')")
    monkeypatch.chdir(tmp_path)
    assert [one.run()[0], one.run(PYTHONSAFEPATH="1")[0]] == [0, 0]


def test_ten_at_once_unpack_one(one: OneFile) -> None:
    starts = [one.begin() for _ in range(10)]
    ends = [(process.communicate(), process.returncode) for process in starts]
    assert {end for end in ends if end[1] or end[0][1]} == set()
    assert contents(one.unpacked()) == FILES


def test_another_version_leaves_the_one_that_may_be_running(one: OneFile) -> None:
    one.run()
    before = one.unpacked()
    one.write({**FILES, "andon/more.py": b""})
    assert one.run()[0] == 0
    assert before in one.own.iterdir()
    assert len(list(one.own.iterdir())) == 2


@pytest.mark.parametrize("change", ["content", "missing", "added", "link", "listed"])
def test_what_was_changed_is_mended(one: OneFile, change: str) -> None:
    one.run()
    folder = one.unpacked()
    entry = folder / "andon/cli/entry.py"
    if change == "content":
        entry.write_bytes(ENTRY.encode().replace(b"dumps", b"loads"))
    elif change == "missing":
        entry.unlink()
    elif change == "added":
        (folder / "json.py").write_text("raise SystemExit('added')")
    elif change == "link":
        entry.rename(folder.parent.parent / "elsewhere")
        entry.symlink_to(folder.parent.parent / "elsewhere")
    else:
        (folder / "manifest").write_text("1\n")
    assert one.run()[0] == 0
    assert contents(one.unpacked()) == FILES
    assert not entry.is_symlink()


def test_a_folder_of_someone_else_is_not_used(one: OneFile) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make it another's")
    one.run()
    os.chown(one.unpacked(), 65534, 65534)
    (one.unpacked() / "andon/cli/entry.py").write_text("raise SystemExit('run')")
    os.chown(one.own, 65534, 65534)
    code, out, errors = one.run()
    assert (code, str(one.unpacked(one.common)) in out) == (0, True)
    assert errors == (
        f"andon: not unpacked there: {one.own} was made by another user (uid 65534)\n"
    )


@pytest.mark.parametrize("kind", ["open", "link", "file"])
def test_a_folder_that_others_could_write_is_not_used(one: OneFile, kind: str) -> None:
    if kind == "open":
        one.own.mkdir()
        one.own.chmod(0o777)
    elif kind == "link":
        one.own.symlink_to(one.shared)
    else:
        one.own.write_text("")
    code, out, errors = one.run()
    why = {"open": "is open to others (mode 777)"}.get(kind, "is not a folder")
    assert (code, errors) == (0, f"andon: not unpacked there: {one.own} {why}\n")
    assert str(one.common) in out


def test_what_is_there_but_of_another_user_is_refused_with_words(one: OneFile) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make it another's")
    one.run()
    os.chown(one.unpacked(), 65534, 65534)
    shutil.rmtree(one.shared)
    one.shared.write_text("")
    code, out, errors = one.run()
    assert (code, out) == (3, "")
    assert "was made by another user (uid 65534)" in errors
    assert "XDG_CACHE_HOME=" in errors


def test_a_home_that_cannot_be_written_is_left_for_another_place(one: OneFile, disk: Path) -> None:
    for options, why in (
        ("ro", "Read-only file system"),
        ("rw,noexec", "is on a file system without programs (noexec)"),
    ):
        assert mount("-o", f"remount,{options}", str(disk)).returncode == 0
        one.cache = disk
        assert one.run()[0] == 0
        shutil.rmtree(one.common)
        assert why in one.run()[2]
        shutil.rmtree(one.common)


def test_a_full_disk_leaves_nothing_and_is_said(one: OneFile, disk: Path) -> None:
    one.path = one.write({**FILES, "andon/large": os.urandom(1 << 20)})
    (disk / "andon-pyz").mkdir(mode=0o700)
    fill(disk / "full")
    one.cache = disk
    shutil.rmtree(one.shared)
    one.shared.write_text("")
    code, out, errors = one.run()
    assert (code, out) == (3, "")
    assert f"{one.own}: No space left on device" in errors
    assert list(one.own.iterdir()) == []
    (disk / "full").unlink()
    assert one.run()[0] == 0


def test_one_that_was_killed_while_it_unpacked_is_in_nobodys_way(tmp_path: Path) -> None:
    many = {f"andon/part{number}.py": os.urandom(3000) for number in range(2000)}
    one = OneFile(tmp_path / "one", {**FILES, **many})
    killed = one.begin()
    wait_for(lambda: list(one.own.glob(".new-*/andon/part9*.py")), 60.0)
    killed.kill()
    killed.communicate()
    (left,) = one.own.glob(".new-*")
    assert one.run()[0] == 0
    assert left.exists()  # it might be another start that goes on
    os.utime(left, (AT, AT))
    one.write(FILES)
    assert one.run()[0] == 0
    assert not left.exists()
    assert len(list(one.own.iterdir())) == 2


def test_a_damaged_file_is_said_to_be_one(one: OneFile) -> None:
    whole = one.path.read_bytes()
    with zipfile.ZipFile(one.path) as opened:
        begins, ends = opened.getinfo("files.zip").header_offset + 40, opened.start_dir
    assert ends - begins > 500
    for place in range(begins, ends, (ends - begins) // 7):
        one.path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        code, out, errors = one.run()
        if code:  # else it was a byte that means nothing, such as a date
            assert (code, out) == (3, ""), errors
            assert "damaged" in errors
            assert list(one.own.iterdir()) == []
        else:
            assert contents(one.unpacked()) == FILES
            shutil.rmtree(one.unpacked())


def test_a_machine_without_compiled_modules_is_told_which_there_are(one: OneFile) -> None:
    files = {name: data for name, data in FILES.items() if name != CORE}
    one.write({**files, "msgspec/_core.cpython-399-riscv64-linux-gnu.so": b""})
    code, _, errors = one.run()
    assert code == 3
    assert "is not for this Python" in errors
    assert "cpython-399-riscv64-linux-gnu" in errors


def test_an_older_python_is_told_what_to_load(one: OneFile, tmp_path: Path) -> None:
    """What comes before the version is looked at must be text for it: that of Python 3.6."""
    ast.parse(pyz.beginning(), feature_version=(3, 6))
    path = str(one.path)
    code = (
        "import runpy, sys; sys.version_info, sys.version = (3, 9), '3.9.2'; "
        f"sys.argv[0] = {path!r}; runpy.run_path({path!r}, run_name='__main__')"
    )
    (tmp_path / "python3.12").write_text("#!/bin/sh\nexit 127\n")  # a shim of nothing
    (tmp_path / "python3.12").chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={"PATH": str(tmp_path)}
    )
    assert done.returncode == 3
    assert "andon needs Python 3.11 or newer, and this is 3.9.2" in done.stderr
    (tmp_path / "python3.11").symlink_to(sys.executable)
    env = {"PATH": str(tmp_path), "XDG_CACHE_HOME": str(one.cache)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    assert (done.returncode, done.stderr) == (0, "")


def test_it_is_the_same_file_twice(one: OneFile) -> None:
    before = one.path.read_bytes()
    one.write(dict(FILES))
    assert one.path.read_bytes() == before
