"""The page on security is held against the code: its tests, commands and findings exist."""

import re

import pytest

from andon.cli.catalogue import COMMANDS
from tests.conftest import REPOSITORY
from tests.support.rows import rows

PAGE = (REPOSITORY / "docs" / "security.md").read_text(encoding="utf-8")
SECTIONS: dict[str, str] = dict(re.findall(r"^## (.+)\n((?:(?!^## ).*\n?)*)", PAGE, re.MULTILINE))
MARKS = re.findall(r"<!-- tested: (\S+?)(?:::(\w+))? -->", PAGE)
ATTACKERS = (
    "An anonymous client on loopback", "A user of the machine", "A page on another site",
    "A hostile container", "A hostile server",
)  # fmt: skip


@rows(("path", "name"), MARKS, ids=[f"{p}::{n}" for p, n in MARKS])
def test_a_test_that_the_page_names_exists(path: str, name: str) -> None:
    text = (REPOSITORY / path).read_text(encoding="utf-8")
    tests = set(re.findall(r"^def (test_\w+)", text, re.MULTILINE))
    assert tests
    assert not name or name in tests


@pytest.mark.parametrize("attacker", ATTACKERS)
def test_each_attacker_has_promises_limits_and_tests(attacker: str) -> None:
    body = SECTIONS[attacker]
    assert "**Promised" in body
    assert "**Not promised.**" in body
    assert "<!-- tested: " in body


def test_the_commands_on_the_page_exist() -> None:
    named = set(re.findall(r"`(?:sudo )?andon (\w+)", PAGE))
    assert {"doctor", "setup"} <= named <= set(COMMANDS)


@pytest.mark.parametrize("place", ["SECURITY.md", "README.md", "docs/server.md", "docs/sharing.md"])
def test_the_page_is_found_from_where_people_look(place: str) -> None:
    text = (REPOSITORY / place).read_text(encoding="utf-8")
    assert re.search(r"\]\((?:docs/)?security\.md[)#]", text)


def test_links_to_headings_lead_somewhere() -> None:
    slugs = {re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-") for title in SECTIONS}
    pages = ("SECURITY.md", "tests/README.md", "docs/troubleshooting.md")
    for page in pages:
        text = (REPOSITORY / page).read_text(encoding="utf-8")
        assert set(re.findall(r"security\.md#([\w-]+)", text)) <= slugs
