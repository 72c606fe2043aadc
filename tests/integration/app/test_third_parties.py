"""A backend and a notifier of another package: installed by pip, named in the settings, used."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.third_party import installed


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed(tmp_path_factory)


def andon(
    site: Path, *arguments: str, config: str = "", **env: str
) -> subprocess.CompletedProcess[str]:
    file = site.parent / "andon.toml"
    file.write_text(config)
    return subprocess.run(
        [sys.executable, "-P", "-m", "andon.cli", *arguments],
        env={**os.environ, "PYTHONPATH": str(site), "ANDON_CONFIG": str(file), **env},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_backend_of_another_package_is_read_like_our_own(site: Path) -> None:
    found = andon(site, "status", "--json", config='[devices]\nbackends = ["abacus"]\n')
    assert found.returncode == 0, found.stderr
    shown = json.loads(found.stdout)
    (device,) = shown["devices"]
    assert (device["vendor"], device["name"], device["state"]) == ("abacus", "Abacus", "ok")
    assert device["sample"]["utilization_percent"] == 42
    assert "nothing else to read" in device["missing"]["power_watts"]
    assert shown["versions"] == {"abacus": "1.2"}
    assert shown["faults"] == []


def test_it_stands_beside_another_vendor_and_has_its_name_for_a_title(site: Path) -> None:
    found = andon(site, "status", ANDON_BACKENDS="abacus,sim")
    assert found.returncode == 0, found.stderr
    assert "Abacus" in found.stdout
    assert "42 %" in found.stdout


def test_a_broken_one_is_a_fault_that_names_its_package(site: Path) -> None:
    found = andon(site, "status", "--json", ANDON_BACKENDS="rusty,abacus")
    shown = json.loads(found.stdout)
    (fault,) = shown["faults"]
    assert fault["source"] == "rusty"
    assert "of the package andon-abacus cannot be loaded" in fault["reason"]
    assert "a_library_that_is_not_there" in fault["reason"]
    assert [device["vendor"] for device in shown["devices"]] == ["abacus"]


def test_an_unknown_one_is_refused_with_the_known_names(site: Path) -> None:
    found = andon(site, "status", ANDON_BACKENDS="abakus")
    assert found.returncode == 2
    assert "unknown backend: abakus" in found.stderr
    assert "one of: auto, amd, intel, nvidia" in found.stderr


def test_a_notifier_of_another_package_sends(site: Path, tmp_path: Path) -> None:
    heard = tmp_path / "heard.txt"
    config = f'[[alerts.notifier]]\nname = "hall"\nkind = "bell"\nurl = "bell://{heard}"\n'
    found = andon(site, "alerts", "test", "--simulate", "1", config=config)
    assert found.returncode == 0, found.stderr
    assert "test" in heard.read_text()


def test_it_passes_the_contract_that_andon_ships(site: Path, tmp_path: Path) -> None:
    """As its author would run it: a class of its own, and pytest."""
    (tmp_path / "test_abacus.py").write_text(
        "import pytest\n"
        "from andon_abacus import Abacus\n"
        "from andon.testing.backend_contract import BackendContract\n"
        "class TestAbacus(BackendContract):\n"
        "    @pytest.fixture\n"
        "    def backend(self):\n"
        "        return Abacus()\n"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(site)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "passed" in done.stdout
