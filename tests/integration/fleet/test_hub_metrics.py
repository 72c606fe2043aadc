"""A hub's metrics in a real Prometheus, which finds a node's own metrics through the hub."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import need
from tests.integration.fleet.reporting import added
from tests.integration.parts import daemon, free_port, wait_until
from tests.integration.prometheus import prometheus
from tests.integration.serving import Served, serving
from tests.support.homes import own_folders
from tests.support.postgres import server
from tests.support.waiting import wait_for

pytestmark = pytest.mark.process
ANDON = (sys.executable, "-m", "andon.cli")


@contextmanager
def agent(hub: Served, folder: Path, **environment: str) -> Iterator[None]:
    """The agent of n20, from its first report on."""
    surroundings = {**os.environ, **own_folders(folder), "ANDON_NODE": "n20", **environment}
    surroundings["ANDON_HUB_TOKEN"] = added(hub, "n20")
    command = [*ANDON, "agent", "--hub", hub.url, "--simulate", "2"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=surroundings)
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("Heartbeat sent")
        yield
    finally:
        process.terminate()
        process.communicate(timeout=30)


def targets(hub: Served) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = hub.ask("/api/nodes/targets", **hub.bearer).json()
    return found


def test_prometheus_finds_the_nodes_of_a_hub_and_their_own_metrics(tmp_path: Path) -> None:
    need("prometheus")
    port, url = free_port(), server().schema("hubmetrics")
    place = {"ANDON_EXPORTER_HOST": "0.0.0.0", "ANDON_EXPORTER_PORT": str(port)}
    with (
        serving(tmp_path / "hub", "--store", url, simulate=None, ANDON_NODE="hub",
                ANDON_LEASE_DIR=str(tmp_path / "book"), ANDON_HUB_METRICS="devices") as hub,
        agent(hub, tmp_path / "n20", ANDON_LEASE_DIR=str(tmp_path / "book20"), **place),
    ):  # fmt: skip
        assert targets(hub) == [], "no exporter runs there"
        discovered = {
            "job_name": "nodes",
            "http_sd_configs": [
                {"url": f"{hub.url}/api/nodes/targets", "refresh_interval": "1s"}
            ],
            "relabel_configs": [  # this machine's name may not be known to a resolver
                {"source_labels": ["__address__"], "regex": ".*:([0-9]+)",
                 "replacement": "127.0.0.1:$1", "target_label": "__address__"}
            ],
        }  # fmt: skip
        exporter = (*ANDON, "exporter", "--simulate", "2", "--quiet")
        with (
            daemon(*exporter, log=tmp_path / "exporter.log", **place),
            prometheus(tmp_path, hub.port, discovered) as found,
        ):
            named = {"node": "n20", "__scheme__": "http"}
            wait_for(lambda: bool(targets(hub)), 60)
            assert targets(hub) == [
                {"targets": [f"{socket.gethostname()}:{port}"], "labels": named}
            ]
            own = 'andon_gpu_utilization_percent{job="nodes",node="n20"}'
            wait_until(lambda: found.devices(own) == ["0", "1"], "the node's own metrics")
            healthy = 'andon_hub_node_state{job="andon",node="n20",state="healthy"} == 1'
            wait_until(lambda: bool(found.query(healthy)), "the node in the hub's metrics")
            gpus = 'andon_hub_gpu_power_watts{job="andon",node="n20"}'
            assert found.devices(gpus) == ["0", "1"]
