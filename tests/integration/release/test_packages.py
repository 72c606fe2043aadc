"""Wheel and sdist: the same twice, of the files that belong there, and true of what they hold.

`make release-check` does the same with a board that is built anew, and tries every Python.
"""

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest
from dev.release import contents, packages, pyz, sbom
from dev.release.contents import Bundled

from andon.version import __version__
from tests.conftest import REPOSITORY, need

PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SPECIAL = {"all", "amd", "bench", "dev", "docs"}
"""`amd` fits only beside the ROCm of its release; the others are for those who work on andon."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need("git")
    return tmp_path_factory.mktemp("release")


@pytest.fixture(scope="module")
def made(folder: Path) -> Mapping[str, Path]:
    tree = packages.copy_sources(folder / "clone")
    return packages.build_all(tree, folder / "of-sdist", folder / "dist")


def test_they_are_the_same_twice(made: Mapping[str, Path], folder: Path) -> None:
    before = os.umask(0o077)
    try:
        again = packages.build_all(
            packages.copy_sources(folder / "another place" / "clone"),
            folder / "another place" / "of-sdist", folder / "again",
            TZ="Asia/Kathmandu", LC_ALL="C",
        )  # fmt: skip
    finally:
        os.umask(before)
    for kind, path in made.items():
        assert packages.digest(path) == packages.digest(again[kind]), kind


def test_they_hold_what_belongs_there(made: Mapping[str, Path], folder: Path) -> None:
    if os.environ.get("UPDATE_GOLDEN"):
        golden = "".join(f"{name}\n" for name in contents.plain_files(made["wheel"]))
        contents.GOLDEN.write_text(golden, encoding="utf-8")
    assert contents.wrong_files(made["wheel"]) == []
    for path in made.values():
        assert contents.traces(path, [str(folder), str(REPOSITORY)]) == []


def test_the_wheel_says_of_itself_what_is_so(made: Mapping[str, Path]) -> None:
    assert contents.wrong_metadata(made["wheel"], PROJECT["optional-dependencies"]) == []
    wrong = contents.wrong_metadata(made["wheel"], {"all": ()})
    assert [line.partition(" ")[0] for line in wrong] == ["extras"]


def test_the_terms_of_what_the_board_bundles_are_known_and_passed_on(
    made: Mapping[str, Path],
) -> None:
    bundled = contents.of_the_board(made["wheel"])
    assert len(bundled) > 10
    assert contents.wrong_licences(bundled) == []
    bill = sbom.bill(made["wheel"], bundled)
    assert isinstance(bill["components"], list)
    urls = [one["purl"] for one in bill["components"]]
    assert any(url.startswith("pkg:npm/react-dom@") for url in urls)
    assert bill == sbom.bill(made["wheel"], bundled)


def test_terms_that_do_not_let_us_or_have_no_text_are_named() -> None:
    unknown = Bundled("npm", "a", "1", "", "x" * 400, ("SHA-512", ""))
    without = Bundled("npm", "b", "1", "MIT", "MIT", ("SHA-512", ""))
    assert contents.wrong_licences([unknown, without]) == [
        "a: its terms are unknown",
        "b: the text of its terms is not in the package",
    ]


def test_a_trace_of_the_machine_is_found(folder: Path) -> None:
    tree = packages.copy_sources(folder / "traced")
    (tree / "docs/traced.md").write_text(f"built in {tree}")
    sdist = packages.build(tree, "sdist", folder / "traced-dist")
    assert contents.traces(sdist, [str(tree)]) == [f"andon-{__version__}/docs/traced.md has {tree}"]


def test_the_extra_all_is_every_part_that_fits_everywhere() -> None:
    extras = PROJECT["optional-dependencies"]
    (named,) = extras["all"]
    assert sorted(re.findall(r"\w+", named)[1:]) == sorted(extras.keys() - SPECIAL)


def test_the_version_is_in_one_place() -> None:
    """Helm wants its own copy, which must not differ."""
    assert PROJECT["dynamic"] == ["version"]
    chart = (REPOSITORY / "deploy/kubernetes/chart/Chart.yaml").read_text(encoding="utf-8")
    assert set(re.findall(r"^(?:version|appVersion): \"?([\d.]+)", chart, re.M)) == {__version__}
    assert packages.version() == __version__


def test_the_changes_begin_with_this_version() -> None:
    """What is newer stands above it under "Unreleased", until it is released."""
    text = (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8")
    titles = re.findall(r"^## (.+)$", text, re.M)
    assert next(title for title in titles if title != "Unreleased") == __version__
    assert titles.count("Unreleased") <= (titles[0] == "Unreleased")


def test_what_the_one_file_bundles_is_pinned() -> None:
    named = {re.split(r"[>=<;\[]", one)[0] for one in PROJECT["dependencies"]}
    named |= {"textual"}
    assert named - {"psutil"} <= pyz.pinned().keys()
    assert all(re.fullmatch(r"[\d.]+", version) for version in pyz.pinned().values())
