"""A person with a kubeconfig, and a hub that the nodes of their cluster report to."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import parse_qsl

from msgspec.structs import replace

from andon.fleet.rules.states import NodeList, NodeRow, NodeState, list_to_text
from andon.history.rules.series import Bucket
from andon.model.run.record import RunDevice
from andon.model.shapes import to_json
from andon.model.wire import snapshot_to_json
from tests.support.homes import own_folders
from tests.support.snapshots import farm, h200, work

SECONDS = 120


class FakeHub:
    """The routes of a hub that a cluster asks: g1 is busy and has an idle notebook, g2 idle."""

    def __init__(self) -> None:
        outer = self
        self.recorded = True
        """Whether the agents of its nodes record jobs."""

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                pass

            def do_GET(self) -> None:
                path, _, query = self.path.partition("?")
                body = json.dumps(outer.answer(path, dict(parse_qsl(query)))).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def answer(self, path: str, query: Mapping[str, str]) -> object:
        now = time.time()
        if path.endswith("/snapshot"):
            notebook = replace(work(9, "bob", "python", 2.0), container="k8s:team-a/notebook-7/c")
            many = 3 if "/g1/" in path else 0
            idle = [replace(h200(place), processes=(notebook,)) for place in range(many)]
            return snapshot_to_json(replace(farm(), devices=tuple(idle), at=now))
        if path.endswith("/runs"):
            given = to_json([RunDevice("GPU-7", 7, "7", "H100", 80 << 30)])
            run = {"id": query["search"], "devices": given}
            return {"items": [{"id": "another", "devices": []}, *([run] * self.recorded)]}
        if path.endswith("/history"):
            buckets = [
                Bucket(now - 9000, now - 7200, 5, 0, 10, 50),
                Bucket(now - 7200, now, 5, 0, 0, 0),
            ]
            return {"buckets": to_json(buckets)}
        rows = (
            NodeRow(
                "g1",
                NodeState.HEALTHY,
                1.0,
                gpus=8,
                utilization_percent=31.0,
                memory_percent=44.0,
                models={"H100": 8},
            ),
            NodeRow(
                "g2",
                NodeState.HEALTHY,
                1.0,
                gpus=8,
                utilization_percent=4.0,
                memory_percent=6.0,
                models={"H100": 8},
            ),
        )
        return json.loads(list_to_text(NodeList(now, True, rows)))


class Person:
    """Someone at a terminal with a kubeconfig."""

    def __init__(self, folder: Path, config: Path, hub: FakeHub) -> None:
        self.hub = hub
        self._env = {**os.environ, **own_folders(folder), "KUBECONFIG": str(config)}
        self._env |= {"COLUMNS": "150", "ANDON_CONFIG": str(folder / "andon.toml")}
        table = f'[clusters.k8s]\nkind = "k8s"\ntimeout = 60\nhub = "{hub.url}"\n'
        (folder / "andon.toml").write_text(table)

    def andon(self, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "andon.cli", *words],
            capture_output=True, text=True, timeout=SECONDS, env=self._env,
        )  # fmt: skip
        assert done.returncode == code, done.stderr
        return done
