"""Adapters of other packages: found by name, looked up only where needed, with plain errors."""

import sys
from pathlib import Path

import pytest

from andon.app.sampler import open_sampler
from andon.app.settings import load_settings
from andon.errors import Conflict, Invalid, Unavailable
from andon.registry import (
    BACKENDS,
    NOTIFIERS,
    STORES,
    AdapterTable,
    is_known,
    load,
)

MODULE = """
class Found: ...
value = 7
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of installed packages."""
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def install(site: Path, name: str, entries: str, module: str = "") -> None:
    """What pip leaves of a package: its metadata and a module."""
    folder = site / f"{name.replace('-', '_')}-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(entries)
    if module:
        (site / f"{name.replace('-', '_')}_module.py").write_text(module)


@pytest.mark.parametrize("table", [BACKENDS, STORES, NOTIFIERS], ids=lambda table: table.kind)
def test_a_class_of_another_package_is_found_by_its_entry_point(
    table: AdapterTable, site: Path
) -> None:
    kind = table.kind
    install(site, f"their-{kind}", f"[{table.group}]\nnew = their_{kind}_module:Found\n", MODULE)
    assert is_known(table, "new")
    found = load(table, "new")
    assert (found.__module__, found.__name__) == (f"their_{kind}_module", "Found")


def test_the_groups_are_the_documented_ones() -> None:
    groups = [table.group for table in (BACKENDS, STORES, NOTIFIERS)]
    assert groups == ["andon.backends", "andon.stores", "andon.notifiers"]


def test_a_name_of_our_own_never_reads_the_metadata_of_all_packages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "importlib.metadata", None)  # it takes 75 ms
    for table in (BACKENDS, STORES, NOTIFIERS):
        for name in table:
            assert is_known(table, name)
    assert load(BACKENDS, "sim").__name__ == "Simulation"


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(Invalid, match="unknown backend: abakus") as caught:
        load(BACKENDS, "abakus")
    assert ", ".join(sorted(BACKENDS)) in caught.value.hint
    with pytest.raises(Invalid, match="unknown backends: a, b") as caught:
        open_sampler(load_settings({"backends": ("a", "nvidia", "b")}).settings)
    assert f"one of: auto, {min(BACKENDS)}" in caught.value.hint


def test_a_package_that_cannot_be_imported_is_named(site: Path) -> None:
    install(site, "their-gpu", "[andon.backends]\nnew = their_gpu_module:Found\n", "import nothing")
    with pytest.raises(Unavailable, match="the package their-gpu cannot be loaded") as caught:
        load(BACKENDS, "new")
    assert "No module named 'nothing'" in caught.value.reason
    assert "pip install --upgrade their-gpu" in caught.value.hint


def test_what_is_not_a_class_is_refused_by_name(site: Path) -> None:
    install(site, "their-gpu", "[andon.backends]\nnew = their_gpu_module:value\n", MODULE)
    with pytest.raises(Unavailable, match="their_gpu_module:value is not a class"):
        load(BACKENDS, "new")


def test_two_packages_of_one_name_are_refused(site: Path) -> None:
    for name in ("their-gpu", "another-gpu"):
        entries = f"[andon.backends]\nnew = {name.replace('-', '_')}_module:Found\n"
        install(site, name, entries, MODULE)
    with pytest.raises(Conflict, match="provided by another-gpu and by their-gpu") as caught:
        load(BACKENDS, "new")
    assert "pip uninstall" in caught.value.hint


def test_a_package_cannot_replace_one_of_ours(site: Path) -> None:
    install(site, "their-gpu", "[andon.backends]\nsim = their_gpu_module:Found\n", MODULE)
    assert load(BACKENDS, "sim").__module__ == "andon.drivers.sim.backend"
