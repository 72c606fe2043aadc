"""A benchmark of a small torch server on a real GPU, against nvidia-smi: run this file alone.

Three rates; `gpu_monitoring`, power and energy of each are compared with nvidia-smi, which runs
beside it. Needs torch, psutil and andon on the path: PYTHONPATH=src python3 tests/device/serving.py
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path
from typing import Any

RATES, SECONDS, TOKENS = (1, 2, 4), 15, 32
POLL_MS = 100
ENERGY_SHARE, POINTS = 0.03, 10.0
FIELDS = "timestamp,utilization.gpu,memory.used,power.draw"


def serve(port: int) -> None:
    """Streams tokens, each a few products of large matrices, like a decoder's step."""
    torch: Any = import_module("torch")
    weights = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    state = torch.randn(64, 8192, device="cuda", dtype=torch.bfloat16)
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            count = asked.get("max_tokens") or TOKENS
            for _ in range(count):
                with lock:
                    found = state
                    for _ in range(40):
                        found = torch.nn.functional.normalize(found @ weights)
                    torch.cuda.synchronize()
                self._event({"choices": [{"delta": {"content": "word "}}]})
            self._event({"choices": [], "usage": {"completion_tokens": count}})
            self._write(b"data: [DONE]\n\n")
            self.wfile.write(b"0\r\n\r\n")

        def _event(self, value: object) -> None:
            self._write(b"data: " + json.dumps(value).encode() + b"\n\n")

        def _write(self, data: bytes) -> None:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            self.wfile.flush()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
            """Prints nothing."""

    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


class SecondOpinion:
    """nvidia-smi beside a load: readings with their times."""

    def __init__(self) -> None:
        self.rows: list[tuple[float, float, float, float]] = []
        self._process = subprocess.Popen(
            [
                "nvidia-smi", f"--query-gpu={FIELDS}", "--format=csv,noheader,nounits",
                f"-lms={POLL_MS}", "-i", "0",
            ],
            stdout=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with suppress(ValueError):
                busy, memory, power = map(float, line.split(",")[1:])
                self.rows.append((time.time(), busy, memory, power))

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()

    def mean(self, column: int, since: float, until: float) -> float:
        found = [row[column] for row in self.rows if since <= row[0] <= until]
        return sum(found) / max(1, len(found))


def measured(url: str, rate: int, opinion: SecondOpinion) -> list[tuple[str, float, float, bool]]:
    """One load: each figure, ours and nvidia-smi's, and whether they agree."""
    import andon

    began = time.time()
    spec = {"model": "m", "rate": rate, "seconds": SECONDS, "output_tokens": TOKENS}
    found: dict[str, Any] = andon.run_benchmark_job(url, spec)
    ended = time.time()
    assert found["gpu_monitoring"] is not None, found["gpu_monitoring_reason"]
    print(
        f"rate {rate}: {found['done']}/{found['sent']}, first token p99 "
        f"{found['first_token']['p99']:.3f} s, {found['tokens_per_second']:.1f} tokens/s, "
        f"{found['joules_per_token']:.2f} J/token, lag {1000 * found['lag_seconds']:.1f} ms"
    )
    stats = found["gpu_monitoring"]["gpu_stats"]["0"]
    path = _record(found["run"])
    end = json.loads(Path(path).read_text(encoding="utf-8").splitlines()[-1])
    seconds = end["duration_seconds"]
    power = opinion.mean(3, end["at"] - seconds, end["at"])
    rows = []
    for name, ours, column in (
        ("utilisation %", stats["utilization"]["mean"], 1),
        ("memory MiB", stats["memory_used_mb"]["mean"], 2),
    ):
        theirs = opinion.mean(column, began, ended)
        slack = max(POINTS, 0.1 * theirs)
        rows.append((name, ours, theirs, abs(ours - theirs) <= slack))
    ours, theirs = sum(u["energy_joules"] for u in end["summary"].values()), power * seconds
    rows.append(("energy J", ours, theirs, abs(ours - theirs) <= ENERGY_SHARE * theirs))
    return rows


def _record(run: str) -> str:
    said = subprocess.run(
        [sys.executable, "-m", "andon", "runs", "show", run, "--json"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return str(json.loads(said.stdout)["run"]["path"])


def main() -> int:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        os.environ |= {"XDG_STATE_HOME": f"{folder}/state", "ANDON_LEASE_DIR": f"{folder}/book"}
        port = 41690
        server = subprocess.Popen([sys.executable, __file__, "--serve", str(port)])
        opinion = SecondOpinion()
        try:
            url = f"http://127.0.0.1:{port}/v1"
            for _ in range(600):
                with suppress(OSError):
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2)
                    break
                time.sleep(0.2)
            warm = {"model": "m", "max_tokens": 8}
            request = urllib.request.Request(f"{url}/x", json.dumps(warm).encode())
            urllib.request.urlopen(request, timeout=120).read()
            rows = [(rate, *row) for rate in RATES for row in measured(url, rate, opinion)]
        finally:
            opinion.stop()
            server.kill()
            server.wait()
    for rate, name, ours, theirs, agree in rows:
        share = 100 * (ours - theirs) / theirs if theirs else 0.0
        words = "agrees" if agree else "DIFFERS"
        print(f"rate {rate}  {name:<14} ours {ours:10.1f}  nvidia-smi {theirs:10.1f}  "
              f"{share:+6.2f} %  {words}")  # fmt: skip
    return 0 if all(row[-1] for row in rows) else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(int(sys.argv[2]))
    else:
        sys.exit(main())
