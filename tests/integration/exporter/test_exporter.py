"""`andon exporter` as Prometheus sees it: a real one scrapes, evaluates and forgets."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from dev.metrics.dashboard import dashboard, variables
from dev.metrics.rules import recordings

import andon
from andon.api import watch as library
from andon.exporter.catalogue import ALL, HUB_GPU, HUB_NODE, SERVER
from andon.testing.mock import MockGpuBackend
from tests.conftest import REPOSITORY, need
from tests.integration.conftest import andon as run_andon
from tests.integration.parts import free_port, wait_until
from tests.integration.prometheus import Prometheus, exporter, fetch, prometheus, queries
from tests.support.exposition import parse
from tests.support.surroundings import fresh_library

UNWATCHED = {"gpu_sm_active_ratio", "gpu_tensor_active_ratio"}
SERVED = {row.name for row in (*SERVER, *HUB_NODE, *HUB_GPU)}  # by a server, which has them
UNKNOWN_HERE = {
    "node_disk_used_bytes", "node_disk_total_bytes",
    # What a card's own settings are, and its slot: a simulated one has none.
    "gpu_driver_start_seconds", "gpu_ecc_enabled", "gpu_ecc_pending_enabled",
    "gpu_persistence_enabled", "gpu_pcie_slot_generation_limit", "gpu_pcie_slot_width_limit",
    "gpu_check_failed", "gpu_check_timestamp_seconds",
}  # fmt: skip


def check_metrics(text: str) -> None:
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=text, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, Prometheus]]:
    """An exporter of four simulated devices, and the Prometheus that scrapes it."""
    need("prometheus", "promtool")
    folder = tmp_path_factory.mktemp("prometheus")
    quick, alone = ("--simulate", "4", "--interval", "200ms"), {"XDG_CONFIG_HOME": str(folder)}
    with exporter(folder, *quick, **alone) as port, prometheus(folder, port) as server:
        wait_until(lambda: server.query("andon_scrapes_total >= 3"), "three scrapes")
        yield port, server


def test_promtool_has_nothing_to_say_of_what_is_served(scraped: tuple[int, Prometheus]) -> None:
    status, text = fetch(scraped[0], "/metrics")
    assert status == 200
    parse(text)
    check_metrics(text)


def test_promtool_has_nothing_to_say_of_the_golden_exposition() -> None:
    need("promtool")
    check_metrics((REPOSITORY / "tests/golden/metrics.txt").read_text(encoding="utf-8"))


def test_prometheus_holds_every_metric_of_the_catalogue(scraped: tuple[int, Prometheus]) -> None:
    held = set(scraped[1].get("label/__name__/values"))
    absent = UNWATCHED | UNKNOWN_HERE | SERVED
    wanted = {f"andon_{row.name}" for row in ALL if row.name not in absent}
    assert wanted <= held


def test_prometheus_answers_for_the_kept_names(scraped: tuple[int, Prometheus]) -> None:
    for name in ("temperature_celsius", "utilization_percent", "memory_used_bytes", "power_watts"):
        assert scraped[1].devices(f"andon_gpu_{name}") == ["0", "1", "2", "3"]


def test_the_values_are_fresh_and_sampled_at_the_interval(scraped: tuple[int, Prometheus]) -> None:
    _, server = scraped
    assert server.query("andon_snapshot_age_seconds < 60")
    wait_until(lambda: server.query("increase(andon_snapshots_total[1m]) > 0"), "more ticks")


@pytest.mark.parametrize("name", sorted(queries(json.loads(dashboard()))))
def test_every_query_of_the_dashboard_has_an_answer(
    scraped: tuple[int, Prometheus], name: str
) -> None:
    asked = queries(json.loads(dashboard()))[name]
    if "node_disk" in asked and not scraped[1].query("andon_node_disk_used_bytes"):
        pytest.skip("this machine has no local file system to show")
    wait_until(lambda: scraped[1].query(asked), f"an answer to {asked}")


def test_what_can_be_chosen_on_the_dashboard_is_there(scraped: tuple[int, Prometheus]) -> None:
    for name, query in variables().items():
        found = re.fullmatch(r"label_values\((\w+)(?:\{.*\})?, (\w+)\)", query)
        assert found
        assert found[2] == name
        assert scraped[1].get(f"label/{name}/values", **{"match[]": found[1]})


@pytest.mark.parametrize("name", [rule.name for rule in recordings()])
def test_every_recording_rule_records(scraped: tuple[int, Prometheus], name: str) -> None:
    wait_until(lambda: scraped[1].query(name), name)


def test_no_rule_fails_to_evaluate(scraped: tuple[int, Prometheus]) -> None:
    groups = scraped[1].get("rules")["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    written = (REPOSITORY / "deploy/prometheus/andon-rules.yml").read_text(encoding="utf-8")
    assert len(rules) == written.count("- alert: ") + written.count("- record: ") > 0
    assert {rule["health"] for rule in rules} <= {"ok", "unknown"}


def test_the_rules_and_the_scrape_configuration_are_valid(tmp_path: Path) -> None:
    need("promtool")
    folder = REPOSITORY / "deploy/prometheus"
    for what, name in (("rules", "andon-rules.yml"), ("config", "scrape.yml")):
        done = subprocess.run(
            ["promtool", "check", what, folder / name], capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr


class Node:
    """A node whose devices a test can take away."""

    def __init__(self) -> None:
        self.backend = MockGpuBackend()

    def snapshot(self, at: float) -> andon.Snapshot:
        return self.backend.snapshot(at)


def devices(*indices: int, lost: int | None = None) -> MockGpuBackend:
    backend = MockGpuBackend()
    for index in indices:
        backend.with_device(index, "H200").with_temperature(50 + index)
        if index == lost:
            backend.lost()
    return backend


def test_the_series_of_a_removed_device_are_gone_at_the_next_scrape(tmp_path: Path) -> None:
    need("prometheus")
    node = Node()
    node.backend = devices(0, 1, 2)
    served = andon.PrometheusExporter().with_port(0).register_gpu_metrics(node).start()
    try:
        with prometheus(tmp_path, served.port) as server:
            temperature, state = "andon_gpu_temperature_celsius", 'andon_gpu_state{state="lost"}'
            wait_until(lambda: server.devices(temperature) == ["0", "1", "2"], "the devices")
            node.backend = devices(0, 1, lost=1)
            wait_until(lambda: server.devices(temperature) == ["0"], "the end of the others")
            assert server.devices(state) == ["0", "1"]
            assert server.devices(f"{state} == 1") == ["1"]
            wait_until(lambda: "AndonDeviceLost" in server.firing(), "the alert")
            node.backend = devices(0)
            wait_until(lambda: server.devices(state) == ["0"], "the end of the lost one")
    finally:
        served.stop()


def test_the_kept_exporter_serves_this_process_sampler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANDON_SIMULATE", "2")
    fresh_library(monkeypatch)
    served = andon.PrometheusExporter().with_prefix("lab").with_port(0)
    served.register_gpu_metrics(andon.get_gpu_monitor())
    alone = parse(served.render())
    served.start()
    try:
        found = parse(fetch(served.port, "/metrics")[1])
        assert len(parse(served.render())["lab_gpu_power_watts"].series) == 2
    finally:
        served.stop()
        library.shared().close()
    assert len(alone["lab_gpu_power_watts"].series) == 2
    assert len(found["lab_gpu_power_watts"].series) == 2
    assert "lab_snapshots_total" in found


FORKED = """
import os, socket, andon
from andon.testing.mock import MockGpuBackend
served = andon.PrometheusExporter().with_port(0).register_gpu_metrics(MockGpuBackend()).start()
port = served.port
told, tell = os.pipe()
if os.fork() == 0:
    os.read(told, 1)  # lives on until the parent has tried the port
    os._exit(0)
served.stop()
again = socket.create_server(("127.0.0.1", port))
os.write(tell, b"x")
os.wait()
print("free")
"""


def test_a_forked_child_does_not_keep_the_port() -> None:
    command = [sys.executable, "-W", "ignore", "-c", FORKED]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.stdout == "free\n", done.stderr


def test_a_lost_and_a_hung_device_have_a_state_and_no_readings(tmp_path: Path) -> None:
    faulty = {"ANDON_SIMULATE_FAULTS": "lost:1@0,hung:2@0"}
    with exporter(tmp_path, "--simulate", "3", "--interval", "200ms", **faulty) as port:
        wait_until(
            lambda: (
                'state="stale"} 1' in (text := fetch(port, "/metrics")[1])
                and 'state="lost"} 1' in text
            ),
            "both states",
        )
        found = parse(fetch(port, "/metrics")[1])
    answered = {value for labels in found["andon_gpu_power_watts"].series
                for name, value in labels if name == "device"}  # fmt: skip
    assert answered == {"0"}
    assert len(found["andon_gpu_info"].series) == 3


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_cleanly_when_it_is_asked_to(tmp_path: Path, number: signal.Signals) -> None:
    log = (tmp_path / "log").open("wb+")
    command = [sys.executable, "-m", "andon.cli", "exporter", "--port", "0", "--simulate", "1"]
    process = subprocess.Popen(command, stderr=log, stdout=log)
    wait_until(lambda: b"serving" in (tmp_path / "log").read_bytes(), "the exporter")
    process.send_signal(number)
    assert process.wait(30) == 0
    log.close()
    assert (tmp_path / "log").read_text().count("\n") == 1


def test_a_port_in_use_is_a_conflict_and_nothing_is_read(scraped: tuple[int, Prometheus]) -> None:
    port, _ = scraped
    told = run_andon("exporter", "--simulate", "1", "--port", str(port))
    assert told.code == 6
    assert f"port {port}" in told.err
    assert "hint:" in told.err


def test_prefix_and_address_are_settings_that_a_flag_beats(tmp_path: Path) -> None:
    file = tmp_path / "andon.toml"
    file.write_text('[exporter]\nprefix = "lab"\nhost = "203.0.113.9"\n')
    env = {"ANDON_EXPORTER_HOST": "127.0.0.1"}
    options = ("--simulate", "1", "--config", str(file))
    with exporter(tmp_path, *options, **env) as port:
        assert "\nlab_gpu_info{" in fetch(port, "/metrics")[1]
    with exporter(tmp_path, *options, "--prefix", "room", **env) as port:
        assert "\nroom_gpu_info{" in fetch(port, "/metrics")[1]


def test_another_address_is_opened_with_a_warning(tmp_path: Path) -> None:
    port = free_port()
    command = [sys.executable, "-m", "andon.cli", "exporter", "--host", "0.0.0.0", "--quiet",
               "--port", str(port), "--simulate", "1"]  # fmt: skip
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(command, stderr=log)
    wait_until(lambda: (tmp_path / "log").read_bytes(), "the warning")
    process.terminate()
    assert process.wait(30) == 0
    assert "WARNING" in (tmp_path / "log").read_text()


@pytest.mark.parametrize("options", [("--prefix", "9x"), ("--host", "203.0.113.9"),
                                     ("--port", "70000"), ("--interval", "soon")])  # fmt: skip
def test_a_wrong_option_is_a_usage_error(options: tuple[str, str]) -> None:
    told = run_andon("exporter", "--simulate", "1", *options)
    assert told.code == 2
    assert "hint:" in told.err
