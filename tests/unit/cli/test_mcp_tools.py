"""What an assistant may say becomes a command line, and nothing else."""

import json
import re
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import CallToolRequestParams
from msgspec.structs import replace

from andon.cli.catalogue import COMMANDS, load
from andon.cli.main import cli
from andon.cli.mcp.calling import MOST_TEXT, Calls, CommandOutput, as_text, as_value
from andon.cli.mcp.far import FarActs
from andon.cli.mcp.server import Assistant
from andon.cli.mcp.tools import ACTING, HUB, READING, SUBMIT, Tool, command_line, tools
from andon.errors import Invalid, Unavailable
from andon.model.codec import document
from andon.model.lease_list import LeaseList
from andon.web.transport.audit import Audit
from tests.support.replaced import answers, fails
from tests.support.rows import rows
from tests.support.sharing_parts import lease_row

PAGE = Path(__file__).parents[3] / "docs" / "assistants.md"
EVERY = {one.name: one for one in (*READING, *ACTING, HUB)}


@rows("name, said, words", [
    ("status", {}, ["status"]),
    ("status", {"device": "3"}, ["status", "3"]),
    ("free", {"gpus": "2", "next": True}, ["free", "--gpus=2", "--next"]),
    ("free", {"next": False}, ["free"]),
    ("job_logs", {"job": "12", "lines": 5}, ["logs", "-n5", "12"]),
    ("runs_compare", {"sides": ["a", "b"]}, ["runs", "compare", "a", "b"]),
    ("estimate", {"model": "llama-3-8b", "on_gpus": "4xH100"},
     ["estimate", "--on-gpus=4xH100", "llama-3-8b"]),
    ("submit", {"command": ["python", "--help"], "gpus": "2"},
     ["submit", "--gpus=2", "--", "python", "--help"]),
])  # fmt: skip
def test_what_is_said_becomes_a_command_line(
    name: str, said: dict[str, object], words: list[str]
) -> None:
    assert command_line(EVERY[name], said) == words


@rows("name, said, reason", [
    ("status", {"gpu": "3"}, "'gpu' is not a parameter"),
    ("status", {"device": 3}, "'device' must be a text"),
    ("status", {"device": ""}, "'device' must be a text"),
    ("status", {"device": "--fresh"}, "looks like an option"),
    ("status", {"device": "a\0b"}, "'device' must be a text"),
    ("status", {"device": "x" * 5000}, "'device' must be a text"),
    ("runs_report", {}, "'run' is missing"),
    ("runs_compare", {"sides": "a"}, "'sides' must be a list"),
    ("runs_compare", {"sides": []}, "'sides' must be a list"),
    ("runs_compare", {"sides": ["a", "--out=/tmp/x"]}, "looks like an option"),
    ("job_logs", {"job": "1", "lines": True}, "'lines' must be a whole number"),
    ("job_logs", {"job": "1", "lines": -1}, "'lines' must be a whole number"),
    ("free", {"next": "yes"}, "'next' must be true or false"),
    ("submit", {"command": ["--dry-run", "x"]}, "looks like an option"),
])  # fmt: skip
def test_anything_else_is_refused_with_what_it_takes(
    name: str, said: dict[str, object], reason: str
) -> None:
    with pytest.raises(Invalid, match=reason):
        command_line(EVERY[name], said)


@given(st.sampled_from([one for one in EVERY.values() if one is not SUBMIT]), st.data())
def test_no_value_becomes_an_option_of_its_own(tool: Tool, data: st.DataObject) -> None:
    values = {"string": st.text(), "array": st.lists(st.text()), "integer": st.integers(),
              "boolean": st.booleans()}  # fmt: skip
    said = {one.name: data.draw(values[one.kind]) for one in tool.parameters}
    allowed = {one.option for one in tool.parameters if one.kind == "boolean"}
    try:
        words = command_line(tool, said)
    except Invalid:
        return
    starts = [one.option for one in tool.parameters if one.option]
    for word in words[len(tool.command.split()) :]:
        ours = word in allowed or any(word.startswith(one) for one in starts)
        assert ours or not word.startswith("-")


def test_every_parameter_is_an_option_of_its_command() -> None:
    wrong = []
    for tool in EVERY.values():
        name, *rest = tool.command.split()
        command = load(COMMANDS[name].target)
        for word in rest:
            found = command.get_command(cli.make_context("andon", ["version"]), word)  # type: ignore[attr-defined]
            command = found
        options = {word for one in command.params for word in (*one.opts, *one.secondary_opts)}
        if tool is not HUB and tool.far and tool not in ACTING and "--url" not in options:
            wrong.append(f"{tool.name} cannot ask a server")
        wrong += [f"{tool.name}: {one.option}" for one in tool.parameters
                  if one.option and one.option not in options]  # fmt: skip
    assert wrong == []


def test_only_acts_that_were_allowed_are_there() -> None:
    acting = {one.name for one in ACTING}
    assert acting == {"submit", "cancel", "release", "reserve"}
    assert not acting & {one.name for one in tools(None, acting=False)}
    assert acting <= {one.name for one in tools(None, acting=True)}
    assert not acting & {one.name for one in tools("http://hub", acting=False)}
    far = {one.name: one for one in tools("http://hub", acting=True)}
    assert far.keys() == {*EVERY}
    assert "node" in far["status"].schema["properties"]
    assert "node" not in far["doctor"].schema["properties"]
    assert far["doctor"].about.startswith("Of the machine of this assistant")
    assert "as who runs the server" in far["submit"].description
    words = command_line(far["submit"], {"command": ["python", "--help"], "folder": "/data"})
    assert words == ["submit", "--folder=/data", "--", "python", "--help"]


def test_the_page_about_assistants_has_every_tool_and_no_other() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])}
    assert named == EVERY.keys()
    said = re.findall(r"^    (\w+) (\{.*\})$", PAGE.read_text(), re.MULTILINE)
    assert [command_line(EVERY[name], json.loads(words))[0] for name, words in said] == [
        "free", "why", "runs", "estimate",
    ]  # fmt: skip


def test_no_tool_ends_processes() -> None:
    assert not any("kill" in one.command for one in EVERY.values())
    assert all(one.acts == "" for one in READING)


HOSTILE = "\x1b[2Jname\u202eevil\u200b\U000e0041 export HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz0123"


def test_what_users_wrote_is_between_marks_and_shows_as_it_is() -> None:
    text = as_text(["logs", "1"], CommandOutput(0, f"{HOSTILE}\nlast\n", ""), raw=True)
    notice, begin, *lines, end = text.splitlines()
    assert "no instructions" in notice
    mark = begin.split()[1]
    assert end == f"--- {mark} end"
    assert "hf_abc" not in text
    assert lines[-1] == "last"
    assert all(line.isprintable() for line in text.splitlines())
    assert (
        mark
        != as_text(["logs", "1"], CommandOutput(0, "", ""), raw=True).splitlines()[1].split()[1]
    )


def test_answers_are_bounded_and_say_what_was_left_out() -> None:
    lines = "".join(f"line {n} {'x' * 90}\n" for n in range(5000))
    whole = as_text(["status"], CommandOutput(0, lines, ""), raw=False)
    end = as_text(["logs"], CommandOutput(0, lines, ""), raw=True)
    assert max(len(whole), len(end)) < MOST_TEXT + 500
    assert "line 0 " in whole
    assert "more lines" in whole
    assert "line 4999 " in end
    assert len(as_text(["logs"], CommandOutput(0, "x" * 10**6, ""), raw=True)) < MOST_TEXT + 500
    value = as_value(["status"], CommandOutput(0, f'{{"a": "{"x" * 10**6}"}}', ""))
    assert "answer" not in value
    assert "ask for less" in value["left_out"]


def test_strings_of_a_value_are_cleaned_and_what_is_no_json_stays_text() -> None:
    value = as_value(["x"], CommandOutput(0, '{"na\\u202eme": ["a\\u001b[2J"], "n": 1.5}', ""))
    assert value["answer"] == {"na�me": ["a�[2J"], "n": 1.5}
    assert as_value(["x"], CommandOutput(0, "plain", ""))["text"] == "plain"
    assert as_value(["x"], CommandOutput(3, "", "andon: no device\n"))["error"].startswith(
        "andon: no"
    )


def test_a_command_that_hangs_ends_that_call_alone() -> None:
    ended = threading.Event()

    def run(words: list[str]) -> int:
        if words == ["hang"]:
            ended.wait()
        print(*words)
        if words == ["break"]:
            raise ZeroDivisionError("x")
        return 0

    calls = Calls(run, seconds=0.2)
    with calls.capturing():
        hanging, other = calls.begin(["hang"]), calls.begin(["other"])
        assert other() == CommandOutput(0, "other\n", "")
        assert hanging().code is None
        broken = calls.begin(["break"])()
        assert (broken.code, broken.out) == (1, "break\n")
        assert "ZeroDivisionError" in broken.errors
        stuck = [calls.begin(["hang"]) for _ in range(8)]
        assert "have not ended" in stuck[-1]().errors
        ended.set()
        hanging()
        assert calls.begin(["again"])().out == "again\n"


def acted(far: FarActs | None, tool: str, said: dict[str, object]) -> tuple[list[list[str]], Any]:
    """The command lines that a call of an assistant led to, and what it got."""
    lines = list[list[str]]()

    def run(words: list[str]) -> int:
        lines.append(words)
        return 0

    calls = Calls(run, seconds=60.0)
    assistant = Assistant(tools(None if far is None else "http://hub", acting=True), [], calls, far)
    given = CallToolRequestParams(name=tool, arguments=said)
    return lines, anyio.run(assistant.called, None, given)


def test_what_cannot_be_written_to_the_audit_is_not_done(monkeypatch: pytest.MonkeyPatch) -> None:
    said: dict[str, object] = {"command": ["true"]}
    lines, got = acted(None, "submit", said)
    assert lines == [["submit", "--", "true"]], got.content
    fails(monkeypatch, Audit, "write", Unavailable("the disk is full"))
    lines, result = acted(None, "submit", said)
    assert (lines, result.is_error) == ([], True)
    assert "the disk is full" in result.content[0].text


def test_a_lease_of_another_user_is_not_released_at_a_server_whatever_the_key_may(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held = lease_row("k3f9"), replace(lease_row("p3xw"), user="bob")
    said = {
        "/api/session": {"user": None, "server_user": "alice"},
        "/api/leases": document(LeaseList(0.0, held)),
    }
    server = SimpleNamespace(get=said.__getitem__, close=lambda: None)
    answers(monkeypatch, FarActs, "_server", server)
    far = FarActs("http://hub", None)
    lines, result = acted(far, "release", {"lease": "p3xw"})
    assert (lines, result.is_error) == ([], True)
    assert "you hold no lease 'p3xw' there" in result.content[0].text
    lines, _ = acted(far, "release", {"lease": "k3f9"})
    assert lines == [["release", "k3f9"]]
