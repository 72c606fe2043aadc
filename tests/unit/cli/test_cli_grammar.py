"""One grammar: the same words mean the same for every command, and none leads nowhere."""

import ast
import re
from pathlib import Path

import click
import pytest

import andon
from andon.cli.catalogue import ALIASES, COMMANDS
from andon.cli.main import LazyGroup, cli, named, run
from andon.cli.options import DEVICE_OPTION
from andon.errors import Invalid
from andon.leases.rules.requests import RequestOptions
from tests.support.rows import rows

READING = ("status", "watch", "ps", "who", "free", "devices", "history", "why", "alerts", "leases")
WITH_DEVICE = (
    "status", "watch", "ps", "who", "free", "devices", "history", "why", "leases", "wait", "env",
    "cordon", "uncordon",
)  # fmt: skip
SOURCE = Path(andon.__file__).parent
PAGES = SOURCE.parent.parent / "frontend" / "src"


def command(name: str) -> click.Command:
    assert isinstance(cli, LazyGroup)
    found = cli.get_command(click.Context(cli), name)
    assert found is not None
    return found


def options(name: str) -> dict[str, list[str]]:
    return {
        str(one.name): [*one.opts] for one in command(name).params if isinstance(one, click.Option)
    }


@rows("name", READING)
def test_every_command_that_reads_a_node_takes_a_url(name: str) -> None:
    assert "--url" in [word for words in options(name).values() for word in words]


@rows("name", [*WITH_DEVICE, "run", "lease"])
def test_devices_are_named_by_the_same_options_everywhere(name: str) -> None:
    found = [words for words in options(name).values() if "-d" in words]
    assert found == [list(DEVICE_OPTION)]


@rows("name", WITH_DEVICE)
def test_a_device_is_an_argument_wherever_one_is_meant(name: str) -> None:
    arguments = [one for one in command(name).params if isinstance(one, click.Argument)]
    assert [one.nargs for one in arguments] == [-1]
    assert "DEVICE" in str(arguments[0].metavar)


@rows(
    ("typed", "meant"),
    [
        ("", "status"),
        ("--json", "status --json"),
        ("-d 0", "status -d 0"),
        ("3", "status 3"),
        ("--simulate 4 -v", "status --simulate 4 -v"),
        ("--simulate 4 ps", "--simulate 4 ps"),
        ("bench", "bench"),
        ("--help", "--help"),
        ("--version", "--version"),
        ("stauts", "stauts"),
    ],
)
def test_without_a_command_it_is_status(typed: str, meant: str) -> None:
    assert named(typed.split()) == meant.split()


def test_an_unknown_word_is_no_device(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["stauts"]) == 2
    assert "did you mean: andon status?" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["", "../x", "..", "x" * 64])
@pytest.mark.parametrize("typed", ["nodes add", "nodes remove", "token remove", "status --node"])
def test_a_name_that_would_change_a_path_is_sent_to_no_hub(
    typed: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*typed.split(), name, "--url", "http://127.0.0.1:9"]) == 2
    assert "is not a name" in capsys.readouterr().err


@pytest.mark.parametrize("alias", ALIASES)
def test_an_alias_is_its_command_and_not_another_line_of_help(alias: str) -> None:
    assert command(alias) is command(ALIASES[alias])
    assert alias not in COMMANDS


@pytest.mark.parametrize("typed", ["version", "--version"])
def test_both_ways_to_ask_for_the_version(typed: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([typed]) == 0
    assert capsys.readouterr().out == f"andon {andon.__version__}\n"


@pytest.mark.parametrize(
    "words",
    [
        ["run", "--for", "2", "--", "true"],
        ["lease", "--for", "2", "--", "true"],
        ["lease", "extend", "k7qm2", "--for", "2"],
        ["history", "--since", "2"],
        ["who", "--since", "2"],
        ["alerts", "silence", "thermal@3", "2"],
    ],
)
def test_a_time_without_a_unit_is_refused_where_it_would_surprise(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words) in (2, 125)
    assert "'2' has no unit: use 2h" in capsys.readouterr().err


def test_all_gpus_is_a_count() -> None:
    assert RequestOptions(gpus="all").request().every
    assert not RequestOptions(gpus="2..4").request().every
    with pytest.raises(Invalid, match="not a number of GPUs"):
        RequestOptions(gpus="most").request()


# Nothing leads nowhere.

_COMMAND = re.compile(r"(?:text=\{?|: )[\"'`]andon ([a-z]+)\b")


def test_every_command_that_a_page_offers_exists() -> None:
    pages = [page for page in PAGES.rglob("*.ts*") if not page.name.endswith(".d.ts")]
    offered = {
        (word, page.name) for page in pages for word in _COMMAND.findall(page.read_text("utf-8"))
    }
    assert offered
    assert [found for found in offered if found[0] not in {*COMMANDS, *ALIASES}] == []


def _texts(path: Path) -> list[str]:
    """The strings of a module that people may read; docstrings of functions are help texts."""
    source = path.read_text("utf-8")
    if "andon " not in source and "docs/" not in source:  # to parse it takes longer
        return []
    return [
        node.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]


@pytest.mark.slow
def test_no_text_names_a_file_that_the_package_lacks_or_a_command_that_does_not_exist() -> None:
    """One test: to parse all modules takes seconds."""
    texts = [(path.name, text) for path in SOURCE.rglob("*.py") for text in _texts(path)]
    assert [found for found in texts if re.search(r"\bdocs/\w+\.md", found[1])] == []
    wrong = [
        (name, word)
        for name, text in texts
        for word in re.findall(r": andon ([a-z]+)(?=$|[;,)]| -| [A-Z])", text)
        if word not in {*COMMANDS, *ALIASES}
    ]
    assert wrong == []
