"""Ray's dashboard for tests: the answers that a real Ray 2.60 gave, with jobs that run as processes
here. What it does badly it does badly too: a known id is an error of 500, a job that waits is not
stopped, its own lines are in the output, and the stream of it does not end."""

import json
import os
import signal
import subprocess
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

WAITS = (
    "Job has not started yet. It may be waiting for resources (CPUs, GPUs, memory, custom "
    "resources) to become available."
)
NODES = {"7c4e62bb": ("192.0.2.2", "n1", 2), "d36ad525": ("192.0.2.3", "n2", 4)}
KILL_AFTER_SECONDS = 3.0


class StandInJob:
    """One submission."""

    def __init__(self, asked: dict[str, Any], folder: Path) -> None:
        self.asked, self.id = asked, asked["submission_id"]
        self.gpus = asked.get("entrypoint_num_gpus") or 0
        self.status = "PENDING"
        self.code: int | None = None
        self.node: str | None = None
        self.begun = time.time()
        self.ended: float | None = None
        self.path = folder / f"job-driver-{self.id}.log"
        self.process: subprocess.Popen[bytes] | None = None
        self.asked_to_stop = False

    def row(self) -> dict[str, Any]:
        error = "JOB_ENTRYPOINT_COMMAND_ERROR" if self.status == "FAILED" else None
        message = WAITS if self.status == "PENDING" else "Job was intentionally stopped."
        return {
            "type": "SUBMISSION", "job_id": None, "submission_id": self.id, "driver_info": None,
            "status": self.status, "entrypoint": self.asked["entrypoint"], "message": message,
            "error_type": error, "start_time": int(1000 * self.begun),
            "end_time": None if self.ended is None else int(1000 * self.ended),
            "metadata": self.asked.get("metadata"), "runtime_env": None,
            "driver_agent_http_address": None, "driver_node_id": self.node,
            "driver_exit_code": self.code,
        }  # fmt: skip


class StandInRay:
    """The cluster: two nodes with two and four GPUs, which are given out and never looked at."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.token, self.delay = folder, "", 0.0
        self.jobs: dict[str, StandInJob] = {}
        self.requests: list[str] = []
        self.loses = 0  # how many submissions are taken and forgotten
        self.gpus_busy: dict[str, float] = {}  # what its nodes read, in percent
        self._lock, self._closed = threading.RLock(), threading.Event()
        ray = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                ray.answer(self, None)

            def do_POST(self) -> None:
                ray.answer(self, self.rfile.read(int(self.headers["Content-Length"] or 0)))

            def log_message(self, *_: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        for work in (self._server.serve_forever, self._go_on):
            threading.Thread(target=work, daemon=True).start()

    def close(self) -> None:
        self._closed.set()
        self._server.shutdown()
        self._server.server_close()
        for job in self.jobs.values():
            if job.process is not None and job.process.poll() is None:
                os.killpg(job.process.pid, signal.SIGKILL)
                job.process.wait()

    # What it does.

    def _go_on(self) -> None:
        while not self._closed.wait(0.02):
            with self._lock:
                for job in self.jobs.values():
                    self._move(job)

    def _move(self, job: StandInJob) -> None:
        if job.status == "PENDING":
            room = [node for node, (_, _, gpus) in NODES.items()
                    if gpus - self._used(node) >= job.gpus]  # fmt: skip
            if room:
                self._start(job, room[0])
        elif job.process is not None and job.status == "RUNNING":
            code = job.process.poll()
            if job.asked_to_stop and code is None:
                with suppress(ProcessLookupError):
                    os.killpg(job.process.pid, signal.SIGTERM)
            if code is not None:
                stopped = job.asked_to_stop
                job.status = "STOPPED" if stopped else "FAILED" if code else "SUCCEEDED"
                job.code, job.ended = None if stopped else code, time.time()

    def _start(self, job: StandInJob, node: str) -> None:
        job.node, job.status, job.begun = node, "RUNNING", time.time()
        job.path.write_text(
            "2026-11-17 19:18:04,439\tINFO job_manager.py:581 -- Runtime env is setting up.\n"
            f"Running entrypoint for job {job.id}: {job.asked['entrypoint']}\n"
        )
        with job.path.open("ab") as out:
            job.process = subprocess.Popen(
                job.asked["entrypoint"], shell=True, stdout=out, stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL, start_new_session=True, cwd=self.folder,
            )  # fmt: skip

    def _used(self, node: str) -> float:
        return sum(j.gpus for j in self.jobs.values() if j.node == node and j.status == "RUNNING")

    # What it answers.

    def answer(self, handler: BaseHTTPRequestHandler, body: bytes | None) -> None:
        self.requests.append(f"{handler.command} {handler.path}")
        self._closed.wait(self.delay)
        place = urlsplit(handler.path)
        if self.token and handler.headers["Authorization"] != f"Bearer {self.token}":
            self._send(handler, 401, "Unauthorized: Invalid or missing authentication token")
        elif place.path.endswith("/logs/file") and "interval" in place.query:
            self._send(handler, 500, "500 Internal Server Error\n\nServer got itself in trouble")
        elif place.path.startswith("/api/v0/logs/"):
            self._log(handler, place.path.endswith("stream"), parse_qs(place.query))
        else:
            with self._lock:
                found = self._found(handler.command, place.path, body)
            self._send(handler, *found)

    def _found(self, method: str, path: str, body: bytes | None) -> tuple[int, object]:
        if path == "/api/v0/nodes":
            rows = [
                {"node_id": node, "node_ip": ip, "node_name": name, "state": "ALIVE",
                 "resources_total": {"GPU": float(gpus), "accelerator_type:H200": 1.0}}
                for node, (ip, name, gpus) in NODES.items()
            ]  # fmt: skip
            return 200, {"result": True, "data": {"result": {"result": rows}}}
        if path == "/api/cluster_status":
            usage = {
                node: {"GPU": [self._used(node), gpus]} for node, (_, _, gpus) in NODES.items()
            }
            report = {"loadMetricsReport": {"usageByNode": usage}}
            return 200, {"data": {"clusterStatus": report}}
        if path == "/nodes":
            read = [
                {"raylet": {"nodeId": node},
                 "gpus": [{"utilizationGpu": busy, "memoryUsed": 10, "memoryTotal": 100}]}
                for node, busy in self.gpus_busy.items()
            ]  # fmt: skip
            return 200, {"data": {"summary": read}}
        if path == "/api/jobs/" and method == "POST":
            return self._submit(json.loads(body or b"{}"))
        if path == "/api/jobs/":
            return 200, [job.row() for job in self.jobs.values()]
        name = path.removeprefix("/api/jobs/").removesuffix("/stop")
        if name not in self.jobs:
            return 404, f"Job {name} does not exist"
        if method == "POST":
            job = self.jobs[name]
            job.asked_to_stop = True
            return 200, {"stopped": True}
        return 200, self.jobs[name].row()

    def _submit(self, asked: dict[str, Any]) -> tuple[int, object]:
        name = asked["submission_id"]
        if name in self.jobs:
            said = f"ValueError: Job with submission_id {name} already exists."
            return 500, f"Traceback (most recent call last):\n  File …\n{said}"
        if self.loses:
            self.loses -= 1
        else:
            self.jobs[name] = StandInJob(asked, self.folder)
        return 200, {"job_id": name, "submission_id": name}

    def _log(self, handler: BaseHTTPRequestHandler, stays: bool, asked: dict[str, Any]) -> None:
        path = self.folder / asked["filename"][0]
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        position = 0
        with suppress(OSError):
            while not self._closed.is_set():
                part = path.read_bytes()[position:]
                position += len(part)
                if part:
                    handler.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
                if not stays:
                    break
                time.sleep(0.05)
            handler.wfile.write(b"0\r\n\r\n")

    def _send(self, handler: BaseHTTPRequestHandler, status: int, answer: object) -> None:
        text = answer if isinstance(answer, str) else json.dumps(answer)
        with suppress(OSError):
            handler.send_response(status)
            handler.send_header("Content-Length", str(len(text.encode())))
            handler.end_headers()
            handler.wfile.write(text.encode())
