"""A real Prometheus over a folder of its own, and a real `andon exporter` for it to scrape."""

import http.client
import json
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from msgspec import Struct

from tests.conftest import REPOSITORY
from tests.integration.parts import daemon, free_port, wait_until

RULES = REPOSITORY / "deploy/prometheus/andon-rules.yml"
CHOSEN = {"$__rate_interval": "1m", "$instance": ".*", "$device": ".*"}
"""What Grafana puts in for its variables when everything is chosen."""


def fetch(port: int, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


class Prometheus(Struct, frozen=True):
    """A running one; queries are answered as of now."""

    port: int

    def get(self, path: str, **options: str) -> Any:
        status, body = fetch(self.port, f"/api/v1/{path}?{urlencode(options)}")
        assert status == 200, body
        return json.loads(body)["data"]

    def query(self, text: str) -> list[dict[str, Any]]:
        for variable, value in CHOSEN.items():
            text = text.replace(variable, value)
        found: list[dict[str, Any]] = self.get("query", query=text)["result"]
        return found

    def devices(self, text: str) -> list[str]:
        return sorted(series["metric"]["device"] for series in self.query(text))

    def firing(self) -> set[str]:
        alerts = self.get("alerts")["alerts"]
        return {a["labels"]["alertname"] for a in alerts if a["state"] == "firing"}


@contextmanager
def prometheus(folder: Path, target: int, *jobs: Mapping[str, Any]) -> Iterator[Prometheus]:
    """Scrapes one port twice a second, and what these jobs say, and evaluates the committed rules
    as often.

    Here they fire after a second; that they wait as long as they should, promtool tells.
    """
    port, rules = free_port(), folder / "rules.yml"
    rules.write_text(re.sub(r"\bfor: \S+", "for: 1s", RULES.read_text(encoding="utf-8")))
    config = {
        "global": {"scrape_interval": "500ms", "scrape_timeout": "500ms",
                   "evaluation_interval": "500ms"},
        "rule_files": [str(rules)],
        "scrape_configs": [
            {"job_name": "andon", "static_configs": [{"targets": [f"127.0.0.1:{target}"]}]}, *jobs
        ],
    }  # fmt: skip
    (folder / "prometheus.yml").write_text(json.dumps(config))  # YAML holds all of JSON
    command = (
        "prometheus", f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=warn",
    )  # fmt: skip
    with daemon(*command, log=folder / "prometheus.log"):
        wait_until(lambda: _is_ready(port), "Prometheus")
        yield Prometheus(port)


@contextmanager
def written_to(folder: Path, port: int | None = None) -> Iterator[Prometheus]:
    """One that scrapes nothing, and takes what is written to it."""
    port = port or free_port()
    command = (
        "prometheus", "--config.file=/dev/null", f"--storage.tsdb.path={folder / 'written'}",
        f"--web.listen-address=127.0.0.1:{port}", "--web.enable-remote-write-receiver",
        "--log.level=warn",
    )  # fmt: skip
    with daemon(*command, log=folder / "written.log"):
        wait_until(lambda: _is_ready(port), "Prometheus")
        yield Prometheus(port)


@contextmanager
def victoria_metrics(folder: Path) -> Iterator[Prometheus]:
    """VictoriaMetrics, which answers the same queries; without the delay of its searches."""
    port = free_port()
    command = (
        "victoria-metrics", f"-storageDataPath={folder / 'victoria'}",
        f"-httpListenAddr=127.0.0.1:{port}", "-search.latencyOffset=0s", "-loggerLevel=ERROR",
    )  # fmt: skip
    with daemon(*command, log=folder / "victoria.log"):
        wait_until(lambda: _is_ready(port, "/health"), "VictoriaMetrics")
        yield Prometheus(port)


@contextmanager
def exporter(folder: Path, *options: str, **environment: str) -> Iterator[int]:
    """`andon exporter` on a free port, as a person starts it."""
    log = folder / "exporter.log"
    command = (sys.executable, "-m", "andon.cli", "exporter", "--port", "0", *options)
    with daemon(*command, log=log, **environment) as process:
        wait_until(lambda: "serving http" in log.read_text() or process.poll() is not None,
                   "the exporter")  # fmt: skip
        found = re.search(r"http://127.0.0.1:(\d+)/metrics", log.read_text())
        assert found, log.read_text()
        yield int(found[1])


def queries(dashboard: Mapping[str, Any]) -> dict[str, str]:
    """Every query of a dashboard, by the panel that asks it."""
    return {
        f"{panel['title']} {target['refId']} {panel['id']}": target["expr"]
        for panel in dashboard["panels"]
        for target in panel.get("targets", ())
    }


def _is_ready(port: int, path: str = "/-/ready") -> bool:
    try:
        return fetch(port, path)[0] == 200
    except OSError:
        return False
