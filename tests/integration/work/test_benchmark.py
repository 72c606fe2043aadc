"""`andon benchmark` against servers that answer in known ways."""

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import andon as package
from andon.api.benchmark import DevicesUnderTest, order_of, run_load
from andon.errors import Invalid, Unavailable
from andon.work.load.driver import DrivenLoad
from andon.work.rules.load import LoadFigures, LoadOrder, RequestResult, percentiles, route_of
from tests.integration.conftest import andon
from tests.support.homes import own_folders
from tests.support.model_servers import ModelServer, model_server
from tests.support.surroundings import fresh_library
from tests.support.waiting import wait_for

pytestmark = pytest.mark.timeout(120)
FIRST, GAP, TOKENS = 0.05, 0.02, 5
GENAI_BENCH = (
    Path(__file__).parents[2] / "recorded" / "genai-bench"
    / "0.0.5-D16_5_text-to-text_num_concurrency_2_time_2s.json"
)  # fmt: skip


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with model_server(TOKENS, FIRST, GAP) as found:
        yield found


@pytest.fixture(autouse=True)
def _own_folders(
    server: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    for name, value in own_folders(tmp_path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("ANDON_SIMULATE", "2")
    fresh_library(monkeypatch)  # that of another test may have no devices
    yield
    server.manner, server.usage, server.models = "well", True, None


def driven(server: ModelServer, **more: object) -> tuple[LoadFigures, list[RequestResult]]:
    given: dict[str, object] = {"concurrency": 4, "requests": 12, "timeout_seconds": 20.0, **more}
    load = DrivenLoad(LoadOrder(route_of(server.url), "m", ("a", "b"), **given))  # type: ignore[arg-type]
    return load.run(), load.results


def test_times_are_those_of_the_server(server: ModelServer) -> None:
    """By the server's own clock: what the client adds on a busy machine is not its error."""
    server.served.clear()
    found, results = driven(server, requests=40)
    assert (found.done, found.errors) == (40, {})
    assert found.tokens == 40 * TOKENS
    assert found.tokens_by_usage
    assert all(len(one.gaps) == TOKENS - 1 for one in results)
    own, theirs = found.end_to_end, percentiles(server.served)
    assert own is not None
    assert theirs is not None
    assert own.p50 >= theirs.p50 * 0.98
    assert all((one.first or 0) >= FIRST * 0.98 for one in results)


def test_a_queue_before_the_server_counts(server: ModelServer) -> None:
    """Requests that are due and wait for the client are late, not unseen."""
    found, results = driven(server, concurrency=None, rate=200.0, requests=20, constant=True)
    assert found.done == 20
    planned = sorted(one.at for one in results)
    assert planned[-1] - planned[0] == pytest.approx(19 / 200, rel=0.02)
    assert all(one.total is not None and one.total >= one.delay for one in results)


@pytest.mark.parametrize(
    ("manner", "kind"),
    [
        ("nonsense", "nonsense"), ("bad json", "nonsense"), ("breaks off", "broke off"),
        ("429", "429"), ("never ends", "slow"),
    ],
)  # fmt: skip
def test_errors_have_their_kind_and_are_not_tried_again(
    server: ModelServer, manner: str, kind: str
) -> None:
    server.manner = manner
    server.asked.clear()
    found, _ = driven(server, requests=3, concurrency=3, timeout_seconds=0.5)
    assert found.errors == {kind: 3}
    assert len(server.asked) == 3


def test_a_server_that_is_not_there_and_one_that_is_late(server: ModelServer) -> None:
    load = DrivenLoad(
        LoadOrder("http://127.0.0.1:9/v1/completions", "m", ("a",), concurrency=1, requests=2)
    )
    found = load.run()
    assert (found.errors, found.example) == ({"refused": 2}, "Connection refused")
    server.first_seconds = 5.0
    try:
        assert driven(server, requests=2, timeout_seconds=0.3)[0].errors == {"timeout": 2}
    finally:
        server.first_seconds = FIRST


def test_all_tokens_in_one_chunk_and_a_server_that_does_not_count(server: ModelServer) -> None:
    server.manner, server.usage = "one chunk", False
    found, _ = driven(server, requests=2)
    assert (found.tokens, found.tokens_by_usage) == (2 * TOKENS, False)
    assert found.between_tokens is not None
    assert found.between_tokens.max == 0.0
    server.manner = "well"
    whole, results = driven(server, requests=2, stream=False)
    assert whole.tokens == 2 * TOKENS
    assert results[0].first is None


def test_a_benchmark_is_a_run_with_its_devices_and_a_line_per_request(server: ModelServer) -> None:
    key = Path(os.environ["XDG_STATE_HOME"]).parent / "key"
    key.write_text("secret\n")
    said = andon(
        "benchmark", server.url, "--model", "m", "--concurrency", "1,2", "--requests", "4",
        "--devices", "0,1", "--key-file", str(key), "--name", "bench", "--json",
    )  # fmt: skip
    assert said.code == 0, said.err
    one, two = said.json()["loads"]
    assert server.keys[-1] == "Bearer secret"
    assert one["done"] == 4
    assert one["joules_per_token"] > 0
    assert set(one["gpu_monitoring"]["gpu_stats"]) == {"0", "1"}
    assert {"monitoring_duration_seconds", "sample_count"} < set(one["gpu_monitoring"])
    shown = andon("runs", "show", two["run"], "--json").json()
    assert shown["run"]["kind"] == "benchmark"
    assert shown["run"]["last_values"]["tokens_per_second"] > 0
    text = Path(shown["run"]["path"]).read_text()
    assert "secret" not in text
    lines = [line for line in text.splitlines() if json.loads(line)["event"] == "item"]
    assert len(lines) == 4
    assert max(map(len, lines)) < 1000
    compared = andon("runs", "compare", "--group", "bench", "--by", "tokens_per_second", "--json")
    assert [row["params"]["concurrency"] for row in compared.json()["rows"]] == [2, 1]


def test_another_client_is_run_and_its_result_read(
    server: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that leaves what genai-bench 0.0.5 left for such a server."""
    program = tmp_path / "bin" / "genai-bench"
    program.parent.mkdir()
    program.write_text(
        f"#!{sys.executable}\nimport os, shutil, sys\n"
        "given = dict(word.partition('=')[::2] for word in sys.argv[2:])\n"
        "assert 'secret' not in str(given) and os.environ['MODEL_API_KEY'] == 'secret'\n"
        "place = given['--experiment-base-dir'] + '/result/'\nos.mkdir(place)\n"
        f"shutil.copy({str(GENAI_BENCH)!r}, place)\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    monkeypatch.setenv("BENCHMARK_API_KEY", "secret")
    given = ("benchmark", server.url, "--model", "m", "--tool", "genai-bench", "--requests", "12")
    said = andon(*given, "--concurrency", "2", "--output-tokens", "5", "--devices", "0", "--json")
    assert said.code == 0, said.err
    (load,) = said.json()["loads"]
    assert (load["done"], load["sent"], load["tokens"]) == (20, 20, 100)
    assert load["end_to_end"]["p50"] == pytest.approx(0.17, abs=0.02)
    assert (load["dispatch"], load["lag_seconds"], load["joules_per_token"]) == (None,) * 3
    wrong = andon(*given, "--rate", "2", "--output-tokens", "5")
    assert (wrong.code, "genai-bench does not drive an open load" in wrong.err) == (2, True)


def test_the_only_model_of_a_server_is_meant_and_several_are_named(server: ModelServer) -> None:
    given = ("benchmark", server.url, "--concurrency", "1", "--requests", "1")
    said = andon(*given)
    assert (said.code, "the only model of the server: m" in said.err) == (0, True), said.err
    assert server.asked[-1]["model"] == "m"
    spec = {"concurrency": 1, "requests": 1, "key": "k"}
    assert package.run_benchmark_job(server.url, spec)["done"] == 1
    assert server.keys[-2:] == ["Bearer k"] * 2
    server.models = {"big", "small"}
    several = andon(*given)
    assert (several.code, "the server has 2 models: big, small" in several.err) == (2, True)
    nobody = andon("benchmark", "http://127.0.0.1:9/v1", "--concurrency", "1", "--requests", "1")
    assert (nobody.code, "/v1/models: Connection refused" in nobody.err) == (3, True), nobody.err


def test_the_tables_have_the_times_that_other_tools_print_and_goodput(server: ModelServer) -> None:
    given = ("benchmark", server.url, "--model", "m", "--concurrency", "1", "--requests", "3")
    said = andon(*given, "--slo", "first-token=10s", "--slo", "per-token=1ms")
    assert said.code == 0, said.err
    assert "GOODPUT/s" in said.out
    for words in ("mean p50 p90 p95 p99 max", "first token", "per token", "between tokens"):
        assert words in " ".join(said.out.split())
    kept = andon(*given, "--slo", "end-to-end=60s", "--json").json()["loads"][0]
    assert kept["goodput_per_second"] == pytest.approx(kept["requests_per_second"])
    assert {"mean", "p95"} < kept["per_token"].keys()
    assert "GOODPUT" not in andon(*given).out
    wrong = andon(*given, "--slo", "first=1")
    assert (wrong.code, "'first=1' is not a limit" in wrong.err) == (2, True)


def test_a_specification_in_genai_benchs_words_is_driven(server: ModelServer) -> None:
    spec = {
        "task": "text-to-text", "model_name": "m", "traffic_scenarios": ["D(16,5)"],
        "num_concurrency": [1, 2], "max_requests_per_iteration": 2, "max_time_per_iteration": 1,
    }  # fmt: skip
    found = package.run_benchmark_job(server.url, spec)
    assert [one["label"] for one in found["loads"]] == ["1 at once", "2 at once"]
    assert (found["label"], found["done"]) == ("2 at once", 2)
    assert server.asked[-1]["max_tokens"] == 5


def test_without_a_gpu_the_load_and_a_run_of_named_devices_go_on(
    server: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"SIMULATE": "0", "BACKENDS": "amd", "ROOT": str(tmp_path)}.items():
        monkeypatch.setenv(f"ANDON_{name}", value)
    fresh_library(monkeypatch)
    spec = {"model": "m", "concurrency": 1, "requests": 1}
    found = package.run_benchmark_job(server.url, spec, gpu_indices=[2])
    assert (found["done"], found["gpu_monitoring"]) == (1, None)
    assert found["gpu_monitoring_reason"] == "no device uses the amdgpu driver"
    with package.run("train", devices=[2], quiet=True) as run:
        run.log(loss=1.0)
    said = andon("benchmark", server.url, "--model", "m", "--concurrency", "1", "--requests", "1",
                 "--devices", "2")  # fmt: skip
    assert (said.code, "no readings of devices: no device uses" in said.err) == (0, True)


def test_a_device_that_is_not_among_those_here_is_refused(server: ModelServer) -> None:
    server.asked.clear()
    with pytest.raises(Invalid, match="there is no device 7"):
        package.run_benchmark_job(server.url, {"model": "m", "concurrency": 1, "requests": 1}, [7])
    assert not server.asked


def test_the_kept_function_returns_the_kept_keys(server: ModelServer) -> None:
    spec = {"model": "m", "concurrency": 2, "requests": 2}
    found = package.run_benchmark_job(server.url, spec, [1])
    stats = found["gpu_monitoring"]["gpu_stats"]["1"]
    assert set(stats) == {
        "name", "utilization", "memory_used_mb", "memory_usage_percent", "temperature_c",
        "power_draw_w",
    }  # fmt: skip
    assert package.run_benchmark_job(server.url, spec)["gpu_monitoring"] is None


def test_an_unknown_model_and_no_server_end_with_an_error(server: ModelServer) -> None:
    server.models = {"other"}
    said = andon("benchmark", server.url, "--model", "m", "--concurrency", "1", "--requests", "2")
    assert said.code == 5
    assert "2 404" in said.out
    (run,) = json.loads(andon("runs", "--json").out)["runs"]
    assert run["state"] == "failed"  # it must not count where runs are compared
    server.asked.clear()
    given = ("--model", "m", "--concurrency", "1", "--requests", "2", "--baseline", "none")
    refused = andon("benchmark", server.url, *given)
    assert (refused.code, "there is no baseline 'none'" in refused.err) == (5, True)
    assert not server.asked


def test_ctrl_c_keeps_the_figures_so_far(server: ModelServer, tmp_path: Path) -> None:
    server.asked.clear()
    process = started(server, "--concurrency", "2", "--seconds", "60s", "--json")
    wait_for(lambda: len(server.asked) > 6)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    (load,) = json.loads(out)["loads"]
    assert load["done"] > 0
    assert andon("runs", "show", load["run"], "--json").json()["run"]["state"] == "stopped"


def started(server: ModelServer, *words: str, **more: Any) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "andon.cli", "benchmark", server.url, "--model", "m", *words]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more
    )


def test_a_killed_benchmark_leaves_a_record_and_no_client(server: ModelServer) -> None:
    server.asked.clear()
    process = started(server, "--concurrency", "2", "--seconds", "60s")
    wait_for(lambda: len(server.asked) > 6)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    process.kill()
    process.communicate(timeout=60)
    assert children
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in children))
    (run,) = andon("runs", "--json").json()["runs"]
    assert run["state"] == "lost"
    shown = andon("runs", "show", run["id"], "--json").json()["run"]
    assert shown["kind"] == "benchmark"
    lines = Path(shown["path"]).read_text().splitlines()
    assert [line for line in lines if json.loads(line)["event"] == "item"]


def test_a_full_disk_costs_the_record_and_not_the_figures(server: ModelServer) -> None:
    limits = (8192, 8192)  # of every file, as if the disk were full then

    def full() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    process = started(server, "--concurrency", "4", "--requests", "60", "--json", preexec_fn=full)
    out, error = process.communicate(timeout=60)
    assert process.returncode == 0, error
    (load,) = json.loads(out)["loads"]
    assert load["done"] == 60
    assert "only a part could be written" in error
    assert andon("runs", "show", load["run"], "--json").json()["run"]["name"] == "benchmark"


def test_a_load_that_cannot_begin_leaves_no_monitoring_behind() -> None:
    def broken(order: LoadOrder) -> Any:
        raise Unavailable("the tool is gone")

    order = order_of("http://127.0.0.1:9", {"model": "m", "rate": 1, "requests": 1})
    uuids = tuple(s.device.uuid for s in package.snapshot().devices)
    with pytest.raises(Unavailable, match="the tool is gone"):
        run_load(order, DevicesUnderTest(uuids), tool=broken)
    assert package.get_gpu_monitor().stop_monitoring() is None
