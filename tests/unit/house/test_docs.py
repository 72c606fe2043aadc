"""Docs that could drift are held against the code."""

import os
import re
from pathlib import Path

import pytest
from dev.site.reference import made_places

from andon.drivers.sim.rules.scenarios import SCENARIOS, ScriptedFault, parse_faults
from andon.leases.rules.requests import LeaseOptions, rows
from andon.model.device import DeviceStatus, Host, Limits, Process, Sample, Setup
from andon.model.shapes import shape_of
from andon.settings.alerts import NOTIFIER_COLUMNS, OVERRIDE_COLUMNS
from andon.settings.exports import COLUMNS as EXPORT_COLUMNS
from andon.settings.resolution import describe
from andon.web.answers.description import KNOWN, SNAPSHOT_SHAPE
from tests.conftest import REPOSITORY

PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]
PROSE = sorted(
    page
    for place in ("*.md", "docs/*.md", "bench/*.md", "tests/README.md", "tests/*/README.md")
    for page in REPOSITORY.glob(place)
)


def read(name: str) -> str:
    return (REPOSITORY / name).read_text(encoding="utf-8")


def settings_page() -> str:
    lines = [
        "# Settings",
        "",
        "A flag overrides an `ANDON_*` variable, which overrides the file, which overrides the",
        "default. The file is the one that `--config` or `ANDON_CONFIG` names (what a command",
        "starts with `--config`, such as a dispatcher or your program, reads the same), else",
        "`~/.config/andon/andon.toml`, else `/etc/andon/andon.toml` for those who may read it.",
        "`andon config check` reports every mistake at once, and `andon config show` says where",
        "each value comes from.",
        "",
        "| in the file | variable | default | what it does | allowed |",
        "|---|---|---|---|---|",
    ]  # fmt: skip
    for row in describe():
        cells = (f"`{row.place}`", f"`{row.variable}`", f"`{row.default}`", row.help, row.allowed)
        lines.append("| " + " | ".join(cells) + " |")
    lines += [
        "",
        "## Tables for alerts",
        "",
        "These tables can only be in the file. Each can occur several times.",
    ]
    for name, columns in (("override", OVERRIDE_COLUMNS), ("notifier", NOTIFIER_COLUMNS)):
        lines += ["", f"`[[alerts.{name}]]`{ABOUT[name]}", "", "| key | what it does | allowed |",
                  "|---|---|---|"]  # fmt: skip
        lines += [f"| `{c.name}` | {c.help} | {c.kind.expected} |" for c in columns]
    lines += ["", "## Exports", "",
              "`[[export]]` sends the metrics elsewhere, and can only be in the file; it can occur",
              "several times. See [exports.md](exports.md).", "",
              "| key | what it does | allowed |", "|---|---|---|"]  # fmt: skip
    lines += [f"| `{c.name}` | {c.help} | {c.kind.expected} |" for c in EXPORT_COLUMNS]
    return "\n".join(lines) + "\n"


ABOUT = {
    "override": " sets other thresholds for one device or one model. Beside these keys\n"
    'it takes any threshold of `[alerts]` by its name, and any rule\'s name with `"off"`.',
    "notifier": " notifies people. See [notifiers.md](notifiers.md).",
}


def test_the_golden_settings_page_lists_every_setting() -> None:
    path = REPOSITORY / "docs" / "settings.md"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(settings_page(), encoding="utf-8")
    assert path.read_text(encoding="utf-8") == settings_page(), "make golden, and look"


SNAPSHOT_TABLES = {
    "andon.snapshot/1": SNAPSHOT_SHAPE,
    "The node's own values": shape_of(Host),
    "A device": KNOWN[DeviceStatus],
    "A sample": KNOWN[Sample],
    "The limits of a device": shape_of(Limits),
    "The setup of a device": shape_of(Setup),
    "A process": KNOWN[Process],
}
TABLE = re.compile(r"(?<=\| field \| meaning \|\n\|---\|---\|\n)(?:\|.*\n)*")


def snapshot_page(page: str) -> str:
    """The page with every table as the model has it; the prose is written by hand."""
    parts = re.split(r"^#+ (.*)\n", page, flags=re.MULTILINE)
    made = parts[0]
    marks = re.findall(r"^#+ ", page, flags=re.MULTILINE)
    for mark, title, text in zip(marks, parts[1::2], parts[2::2], strict=True):
        rows = [
            f"| `{name}` | {member.about} |\n"
            for name, member in SNAPSHOT_TABLES[title].members.items()
        ]
        assert len(TABLE.findall(text)) == 1, title
        assert all(member.about for member in SNAPSHOT_TABLES[title].members.values()), title
        made += f"{mark}{title}\n" + TABLE.sub(lambda _, rows=rows: "".join(rows), text)
    return made


def test_the_golden_snapshot_page_has_every_field_and_its_meaning() -> None:
    path = REPOSITORY / "docs" / "snapshot.md"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(snapshot_page(path.read_text(encoding="utf-8")), encoding="utf-8")
    page = path.read_text(encoding="utf-8")
    assert page == snapshot_page(page), "make golden, and look"


def test_the_pages_name_every_option_of_a_request() -> None:
    table = rows(LeaseOptions)
    assert [
        row.name for row in table if not re.search(rf"\b{row.name}\b", read("docs/python.md"))
    ] == []


def test_the_simulation_page_names_every_scenario_and_fault() -> None:
    page = read("docs/simulation.md")
    assert set(SCENARIOS) == set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
    faults = re.findall(r"^\| `([a-z]+[:@][^`]+)` \|", page, re.MULTILINE)
    assert {script.trouble for script in parse_faults(faults)} == set(ScriptedFault)


def test_the_readme_shows_a_golden_picture_and_stays_short() -> None:
    page = read("README.md")
    assert read("tests/golden/status-80.txt").strip() in page
    after = page.rpartition("![")[2]
    assert len(after.splitlines()) < 80, "one screen after its pictures"
    first = re.search(r"```\n(.*?)```", page, re.DOTALL)
    assert first is not None
    free = first[1].splitlines()[1]
    assert free.startswith("free: ")
    assert page.count(free) == 2, "as the picture says below"


@pytest.mark.parametrize("page", PROSE, ids=lambda p: str(p.relative_to(REPOSITORY)))
def test_prose_wraps_at_a_hundred_columns(page: Path) -> None:
    prose = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    lines = [line for line in prose.splitlines() if not line.startswith(("|", "<!--", "    "))]
    assert [line for line in lines if len(line) > 100] == []


@pytest.mark.parametrize("page", PROSE, ids=lambda p: str(p.relative_to(REPOSITORY)))
def test_every_link_leads_somewhere(page: Path) -> None:
    """Headings are looked up when the site is built (`make site`), and so is the reference made."""
    made = {REPOSITORY / "docs" / place for place in made_places()}
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        path = page.parent / target
        assert "://" in target or path.exists() or path in made, target


@pytest.mark.parametrize("name", ["cold.py", "cold.txt"])
def test_the_example_condition_is_shown_as_it_is_tested(name: str) -> None:
    """tests/integration/explain/test_one_file.py adds it to a copy of andon."""
    text = read(f"tests/support/{name}")
    shown = text if name.endswith(".py") else re.sub("^", "    ", text.rstrip("\n"), flags=re.M)
    assert shown in read("docs/extending.md")


def test_the_index_of_the_docs_leads_to_every_page() -> None:
    pages = {page.name for page in (REPOSITORY / "docs").glob("*.md")} - {"README.md"}
    assert pages <= set(re.findall(r"\]\(([\w-]+\.md)", read("docs/README.md")))


def test_every_table_has_its_head() -> None:
    """A blank line within one would make text of the rows below."""
    heads = {
        f"{page.name}:{number}": lines[number + 1]
        for page in PAGES
        for lines in [page.read_text("utf-8").splitlines()]
        for number, line in enumerate(lines[:-1])
        if line.startswith("|") and not lines[number - 1].startswith("|")
    }
    assert [place for place, under in heads.items() if not re.match(r"\|[ -]+\|", under)] == []


GENERATED = re.compile(r"<!-- generated: .*?<!-- end -->", re.DOTALL)
WHOLE = ("settings.md", "conditions.md")
TABLES = ("alerting.md", "metrics.md", "snapshot.md")
MOST_WORDS = 45_000


def words_by_hand(page: Path) -> int:
    """What `wc -w` counts, without what the code makes: pages, tables, and parts that say so."""
    if page.name in WHOLE:
        return 0
    text = re.sub(r"<!--.*?-->", "", GENERATED.sub("", page.read_text("utf-8")), flags=re.DOTALL)
    lines = text.splitlines()
    return sum(len(one.split()) for one in lines if page.name not in TABLES or one[:1] != "|")


def test_the_docs_have_no_more_words_than_people_read() -> None:
    words = {str(page): words_by_hand(page) for page in PAGES}
    assert sum(words.values()) <= MOST_WORDS, sorted(words.items(), key=lambda one: -one[1])[:9]


PICTURED = (
    "alerts", "sharing", "runs", "jobs", "estimate", "board", "top", "fleet", "ssh", "sweeps",
    "benchmark", "python",
)  # fmt: skip


@pytest.mark.parametrize("page", PICTURED)
def test_pages_for_users_have_a_picture(page: str) -> None:
    found = re.findall(r"!\[[^]]+\]\((pictures/[\w.]+)\)", read(f"docs/{page}.md"))
    assert found
    assert all((REPOSITORY / "docs" / one).stat().st_size < 200_000 for one in found)
