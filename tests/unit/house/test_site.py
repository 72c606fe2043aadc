"""The site's reference: everything that the code has is on a page that is made from it."""

import json
import re
import subprocess
from pathlib import Path
from shutil import which

import pytest
from dev.site.commands import Command, command_pages, every_command, man_pages
from dev.site.limits import limits_page
from dev.site.python_api import python_page
from dev.site.reference import exit_codes_page, job_file_page, made_places, payloads_page, rest_page

import andon
from andon.cli.catalogue import COMMANDS, EXIT_CODES
from andon.jobs.rules.file_keys import KEYS, REQUEST_KEYS
from tests.conftest import REPOSITORY


def all_of(command: Command) -> list[Command]:
    return [command, *(one for below in command.below for one in all_of(below))]


@pytest.mark.slow
def test_every_option_of_every_command_is_on_its_page() -> None:
    pages = command_pages()
    assert pages.keys() == {p for p in made_places() if "/commands/" in p}
    for name, command in every_command().items():
        page = pages[f"reference/commands/{name}.md"]
        for one in all_of(command):
            assert re.search(rf"^#+ {re.escape(one.name)}$", page, re.MULTILINE)
            options = re.findall(r"--[a-z-]+", " ".join(words for words, _ in one.options))
            assert [option for option in options if option not in page] == []
    submit = pages["reference/commands/submit.md"]
    assert "--stop-when RULE" in submit
    assert "andon runs baseline check" in pages["reference/commands/runs.md"]


def test_every_route_and_every_payload_is_shown() -> None:
    described = json.loads((REPOSITORY / "frontend/openapi.json").read_text("utf-8"))["paths"]
    page, payloads = rest_page(), payloads_page()
    missing = [
        f"{method} {path}" for path, methods in described.items() for method in methods
        if method != "parameters" and f'id="{method}{re.sub("[^a-z0-9]+", "-", path)}' not in page
        and f"{path}</code>" not in page
    ]  # fmt: skip
    assert missing == []
    assert page.count('class="route"') == sum(map(len, described.values()))
    names = {path.stem for path in (REPOSITORY / "tests/golden/api").glob("*.json")}
    assert names == set(re.findall(r"^## (.+)$", payloads, re.MULTILINE))


def test_every_public_name_key_and_exit_code_has_its_line() -> None:
    python, keys, codes = python_page(), job_file_page(), exit_codes_page()
    assert [name for name in andon.__all__ if f"andon.{name}" not in python] == []
    assert "timeout_seconds=300" in python, "defaults are shown"
    assert [key for key in (*KEYS, *REQUEST_KEYS) if f"| `{key}` |" not in keys] == []
    assert [code for code, _ in EXIT_CODES if f"| {code} |" not in codes] == []


def test_limits_are_those_of_the_code() -> None:
    page = limits_page()
    assert "| 1,024 | leases of one user" in page
    assert "| 1 d | a silence of a user |" in page


@pytest.mark.process
def test_man_pages_are_read_by_groff_without_a_word(tmp_path: Path) -> None:
    pages = man_pages()
    assert pages.keys() == {"andon.1", *(f"andon-{name}.1" for name in COMMANDS)}
    if which("groff") is None:
        pytest.skip("dev/parts installs groff")
    for name, text in pages.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    files = [str(tmp_path / name) for name in sorted(pages)]
    groff = ["groff", "-man", "-Tutf8", "-ww", "-K", "utf8", *files]
    made = subprocess.run(groff, capture_output=True, text=True, check=True)
    assert made.stderr == ""
    assert made.stdout.count("ANDON(1)") >= 2
