"""Cost of one scrape, from connecting to the last byte: `python -m bench.exporter`.

An empty answer (/healthz) is measured between the scrapes: that is the share of the machine and
the connection, and on a busy machine nearly all of the p99.
"""

import argparse
import json
import os
import platform
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path

import psutil
from msgspec import Struct, to_builtins

from bench import nodes
from bench.figures import Spread

TARGET_SECONDS = 0.002
REQUEST = b"GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/plain\r\n\r\n"
WARM_UP = 20


class Scrapes(Struct, frozen=True):
    """One way of scraping, many times."""

    mode: str
    spread: Spread
    series: int
    body_bytes: int
    inside_seconds: float
    cpu_seconds: float
    empty: Spread

    def __str__(self) -> str:
        one = self.spread
        times = (one.median_seconds, one.p99_seconds, one.mean_seconds, self.inside_seconds,
                 self.cpu_seconds, self.empty.median_seconds, self.empty.p99_seconds)  # fmt: skip
        return f"{self.mode:<22}" + "".join(f"{1000 * seconds:>9.2f}" for seconds in times)


def main() -> None:
    options = _options()
    simulated = ["--simulate", str(options.devices)] if options.simulate else []
    node = nullcontext(dict(os.environ)) if simulated else nodes.standin(options.devices, 40)
    with node as environment, _exporter(simulated, dict(environment)) as (port, pid):
        every = [
            measure(port, pid, "in a tight loop", options.scrapes, 0.0),
            measure(port, pid, f"every {options.pause * 1000:g} ms", options.scrapes,
                    options.pause),
        ]  # fmt: skip
    print(f"{options.devices} devices, {every[0].series} series, {every[0].body_bytes} bytes")
    heads = ("median", "p99", "mean", "inside", "CPU", "empty", "its p99")
    print(f"{'milliseconds':<22}" + "".join(f"{head:>9}" for head in heads))
    print("\n".join(map(str, every)))
    worst = max(scrapes.spread.p99_seconds for scrapes in every)
    word = "reached" if worst < TARGET_SECONDS else "NOT reached"
    print(f"{word}: a scrape under {1000 * TARGET_SECONDS:g} ms at p99 ({1000 * worst:.2f} ms)")
    if options.json:
        options.json.write_text(_record(every), encoding="utf-8")


def measure(port: int, pid: int, mode: str, count: int, pause_seconds: float) -> Scrapes:
    """Scrape repeatedly; the pause lets the CPU caches go cold, as in real use."""
    scrape(port)  # the first one waits for the first sample
    seconds, first, body = [], scrape(port), b""
    before = _cpu_seconds(pid)
    for _ in range(count + WARM_UP):
        time.sleep(pause_seconds)
        began = time.perf_counter()
        body = scrape(port)
        seconds.append(time.perf_counter() - began)
    cpu = _cpu_seconds(pid) - before - _grown(first, body, b"sampler_cpu_seconds_total")
    empty = []
    for _ in range(count):
        time.sleep(pause_seconds)
        began = time.perf_counter()
        scrape(port, b"/healthz")
        empty.append(time.perf_counter() - began)
    scrapes = _grown(first, body, b"scrapes_total")
    return Scrapes(
        mode,
        Spread.of(seconds[WARM_UP:]),
        series=sum(not line.startswith(b"#") for line in body.splitlines()),
        body_bytes=len(body),
        # The mean time measured by the exporter itself, without connecting and waking up.
        inside_seconds=_grown(first, body, b"scrape_seconds_total") / scrapes,
        cpu_seconds=cpu / (count + WARM_UP),
        empty=Spread.of(empty),
    )


def _cpu_seconds(pid: int) -> float:
    """Of the exporter's process; its reader is another one."""
    spent = psutil.Process(pid).cpu_times()
    return float(spent.user + spent.system)


def _grown(first: bytes, last: bytes, name: bytes) -> float:
    return _counter(last, name) - _counter(first, name)


def _counter(body: bytes, name: bytes) -> float:
    found = re.search(rb"^andon_" + name + rb" (\S+)$", body, re.MULTILINE)
    assert found, name
    return float(found[1])


def scrape(port: int, path: bytes = b"/metrics") -> bytes:
    """A scraper with almost no cost of its own; it is done when the announced length arrived."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(REQUEST % path)
        got = b""
        while b"\r\n\r\n" not in got:
            got += connection.recv(1 << 20)
        head, _, body = got.partition(b"\r\n\r\n")
        assert b" 200 " in head.splitlines()[0], head
        wanted = int(head.lower().partition(b"content-length:")[2].split()[0])
        while len(body) < wanted:
            body += connection.recv(1 << 20)
    return body


@contextmanager
def _exporter(options: list[str], environment: dict[str, str]) -> Iterator[tuple[int, int]]:
    """Its port and pid."""
    command = [sys.executable, "-m", "andon.cli", "exporter", "--port", "0", *options]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        found = re.search(r"127\.0\.0\.1:(\d+)/metrics", process.stderr.readline())
        assert found, "the exporter did not start"
        yield int(found[1]), process.pid
    finally:
        process.terminate()
        process.wait(30)


def _record(every: list[Scrapes]) -> str:
    found = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": " ".join(["python", "-m", "bench.exporter", *sys.argv[1:]]),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "scrapes": [to_builtins(scrapes) for scrapes in every],
    }
    return json.dumps(found, indent=1) + "\n"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.exporter", description=__doc__)
    parser.add_argument("--devices", type=int, default=8)
    parser.add_argument("--scrapes", type=int, default=500)
    parser.add_argument("--pause", type=float, default=0.02, metavar="SECONDS")
    parser.add_argument("--simulate", action="store_true", help="simulated devices, no stand-in")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    return parser.parse_args()


if __name__ == "__main__":
    main()
