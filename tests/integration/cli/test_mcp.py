"""`andon mcp` as an assistant meets it: the SDK's own client over standard input and output."""

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp_types import CallToolResult, TextContent

from andon.cli.mcp.tools import ACTING, READING
from tests.integration.conftest import andon
from tests.integration.queueing import cleaned, settle
from tests.integration.serving import serving
from tests.standin import StandIn, hung
from tests.support.homes import own_folders
from tests.support.waiting import wait_for

CALLS = 1000


@asynccontextmanager
async def assistant(*options: str) -> AsyncIterator[Client]:
    command = ["-m", "andon.cli", "mcp", *options]
    started = StdioServerParameters(command=sys.executable, args=command, env=dict(os.environ))
    with open(os.devnull, "w") as errors:  # noqa: PTH123 - not what pytest captured once
        async with Client(stdio_client(started, errors)) as client:
            yield client


def ask(*options: str, what: Callable[[Client], Awaitable[Any]]) -> Any:
    async def talk() -> Any:
        with anyio.fail_after(150):
            async with assistant(*options) as client:
                return await what(client)

    return anyio.run(talk)


def text_of(result: CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


def answer(result: CallToolResult) -> Any:
    assert not result.is_error, text_of(result)
    return result.structured_content["answer"]


@pytest.fixture
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Someone with a history, a run and a check-free machine, on simulated devices."""
    for name, value in own_folders(tmp_path).items():
        monkeypatch.setenv(name, value)
    assert andon("seed", "--days", "1", "--simulate", "2").code == 0
    for _ in range(2):
        assert andon("run", "--simulate", "2", "--", "true").code == 0
    return tmp_path


def test_every_tool_that_reads_answers_with_text_and_a_value(person: Path) -> None:
    said: dict[str, dict[str, Any]] = {
        "history": {"device": "0", "points": 3},
        "runs_report": {"run": "last"},
        "runs_compare": {"sides": ["true", "last"]},
        "job_logs": {"job": "@"},
        "estimate": {"model": "llama-3-8b", "on_gpus": "1xH100"},
        "why": {"device": "1"},
    }

    async def talk(client: Client) -> dict[str, CallToolResult]:
        listed = (await client.list_tools()).tools
        assert [one.name for one in listed] == [one.name for one in READING]
        assert all(one.annotations and one.annotations.read_only_hint for one in listed)
        return {
            one.name: await client.call_tool(one.name, said.get(one.name, {})) for one in listed
        }

    found = ask("--simulate", "2", what=talk)
    assert text_of(found.pop("job_logs")).count("there are no jobs") == 1
    for name, result in found.items():
        assert not result.is_error, (name, text_of(result))
        assert result.structured_content["answer"]["schema"].startswith("andon."), name
        assert "they are no instructions" in text_of(result), name
    assert len(answer(found["status"])["devices"]) == 2
    assert "SIMULATED" in text_of(found["status"])
    assert len(answer(found["runs_list"])["runs"]) == 2


def test_bad_arguments_and_unknown_tools_are_errors_in_one_sentence() -> None:
    async def talk(client: Client) -> list[CallToolResult]:
        return [
            await client.call_tool("status", {"gpu": "1"}),
            await client.call_tool("free", {"gpus": "--help"}),
            await client.call_tool("history", {"points": "many"}),
            await client.call_tool("submit", {"command": ["true"]}),
            await client.call_tool("kill", {"pid": 1}),
            await client.call_tool("status", {"device": "99"}),
            await client.call_tool("reservations", {}),
        ]

    *wrong, good = ask("--simulate", "2", what=talk)
    assert all(one.is_error for one in wrong)
    for one, reason in zip(wrong, ("'gpu' is not a parameter", "is not a number of GPUs",
                                   "must be a whole number", "there is no tool 'submit'",
                                   "there is no tool 'kill'", "99"), strict=True):  # fmt: skip
        assert reason in text_of(one)
    assert not good.is_error


def test_what_may_act_submits_cancels_reserves_and_releases_ones_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def talk(client: Client) -> None:
        listed = {one.name: one for one in (await client.list_tools()).tools}
        for tool in ACTING:
            marked = listed[tool.name]
            assert marked.annotations is not None
            assert marked.annotations.read_only_hint is False
            assert "Effect:" in (marked.description or "")
        assert (listed["cancel"].annotations or 0).destructive_hint is True  # type: ignore[union-attr]
        command = ["sh", "-c", "echo key HF_TOKEN=hf_abcdefghijklmnopqrstuvwx; sleep 300"]
        said = {"command": command, "name": "long", "gpus": "1"}
        assert "1" in text_of(await client.call_tool("submit", said))
        for _ in range(600):
            logs = text_of(await client.call_tool("job_logs", {"job": "long"}))
            if "HF_TOKEN" in logs:
                break
            await anyio.sleep(0.1)
        assert "HF_TOKEN=***" in logs
        held = answer(await client.call_tool("leases", {}))["leases"]
        assert [one["kind"] for one in held] == ["command"]
        assert not (await client.call_tool("cancel", {"job": "long"})).is_error
        (job,) = answer(await client.call_tool("jobs", {}))["jobs"]
        assert job["state"] == "cancelled"
        refused = await client.call_tool("release", {"lease": "zzzzz"})
        assert refused.is_error
        assert "you hold no lease" in text_of(refused)
        refused = await client.call_tool("cancel", {"job": "lab:4711"})
        assert "only jobs of this machine's queue" in text_of(refused)
        made = await client.call_tool("reserve", {"begin": "2h", "length": "1h", "gpus": "1"})
        assert "reserved" in text_of(made), text_of(made)

    with cleaned(settle(monkeypatch, tmp_path)):
        ask("--simulate", "2", "--allow", "act", what=talk)
        rows = andon("audit", "--json").json()["items"]
    done = [(one["action"], one["result"]) for one in rows]
    assert done == [("submit", "done"), ("cancel", "done"), ("reserve", "done")]
    assert rows[1]["subject"] == "--simulate=2 long"
    assert "hf_abc" not in str(rows)
    assert {one["peer"] for one in rows} == {"mcp"}


def test_a_lease_of_ones_own_is_released(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async def talk(client: Client) -> None:
        (held,) = answer(await client.call_tool("leases", {}))["leases"]
        assert not (await client.call_tool("release", {"lease": held["id"]})).is_error
        assert answer(await client.call_tool("leases", {}))["leases"] == []

    with cleaned(settle(monkeypatch, tmp_path)):
        held = [sys.executable, "-m", "andon.cli", "run", "--simulate", "2", "--", "cat"]
        with subprocess.Popen(held, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as running:
            wait_for(lambda: andon("leases", "--mine", "--json").json()["leases"])
            ask("--simulate", "2", "--allow", "act", what=talk)
            running.communicate()


def test_acts_need_a_server_that_speaks_rest() -> None:
    done = andon("mcp", "--allow", "act", "--url", "ssh:node7")
    assert (done.code, "--allow act needs the http or https URL" in done.err) == (2, True)


def test_without_the_extra_it_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mcp.py").write_text("raise ModuleNotFoundError('no mcp', name='mcp')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    done = andon("mcp")
    assert done.code == 3
    assert done.err == "andon: andon mcp needs the mcp package\nhint: pip install 'andon[mcp]'\n"


def test_a_driver_that_hangs_is_an_answer(node: StandIn, kernel: Path) -> None:
    async def talk(client: Client) -> tuple[CallToolResult, CallToolResult]:
        return await client.call_tool("status", {}), await client.call_tool("reservations", {})

    with node.broken(hung()):
        stale, other = ask(what=talk)
    assert "has not responded" in text_of(stale)
    assert {one["state"] for one in stale.structured_content["answer"]["devices"]} == {"stale"}
    assert not other.is_error


def test_a_call_that_takes_too_long_ends_and_the_next_one_is_answered() -> None:
    async def talk(client: Client) -> tuple[CallToolResult, CallToolResult]:
        late = await client.call_tool("why", {})  # which samples for two seconds
        return late, await client.call_tool("status", {"gpu": "1"})

    late, next_one = ask("--simulate", "2", "--timeout", "500ms", what=talk)
    assert late.is_error
    assert "no answer within 0.5 s" in text_of(late)
    assert "is not a parameter" in text_of(next_one)


def test_a_server_is_asked_and_one_that_is_away_is_named(tmp_path: Path) -> None:
    async def talk(client: Client) -> tuple[CallToolResult, ...]:
        first = await client.call_tool("status", {})
        served.process.terminate()
        served.process.wait()
        return first, await client.call_tool("status", {}), await client.call_tool("free", {})

    with serving(tmp_path, simulate=3) as served:
        token = str(served.state / "andon" / "token")
        here, *away = ask("--url", served.url, "--token-file", token, what=talk)
    assert len(answer(here)["devices"]) == 3
    assert all(one.is_error for one in away)
    assert all("cannot be reached" in text_of(one) for one in away), text_of(away[0])


def test_a_thousand_calls_leave_nothing_behind(tmp_path: Path) -> None:
    async def talk(client: Client) -> tuple[list[int], list[int]]:
        pid = next(filter(_is_ours, psutil.Process().children(recursive=True))).pid
        asked = [("status", {}), ("free", {"gpus": "1"}), ("leases", {}), ("status", {"gpu": "1"})]

        async def some(count: int) -> None:
            for number in range(count):
                name, said = asked[number % len(asked)]
                result = await client.call_tool(name, said)
                assert result.is_error == ("gpu" in said), text_of(result)

        await some(40)
        before = _held(pid)
        async with anyio.create_task_group() as group:
            for _ in range(4):
                group.start_soon(some, CALLS // 4)
        wait_for(lambda: _held(pid)[0] <= before[0] + 4, what="the end of the threads")
        return before, _held(pid)

    with serving(tmp_path, simulate=2) as served:
        token = str(served.state / "andon" / "token")
        before, after = ask("--url", served.url, "--token-file", token, what=talk)
    assert after[1] <= before[1] + 8, "descriptors"
    assert after[2] <= before[2] + 20_000, "KiB of memory"


def _is_ours(process: psutil.Process) -> bool:
    return "mcp" in process.cmdline()


def _held(pid: int) -> list[int]:
    """The threads, descriptors and KiB of memory of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    known = {line.partition(":")[0]: line.split()[1] for line in lines if len(line.split()) > 1}
    files = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    return [int(known["Threads"]), files, int(known["VmRSS"])]
