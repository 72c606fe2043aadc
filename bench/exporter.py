"""What one scrape costs, from connecting to the last byte: `python -m bench.exporter`."""

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
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from bench import nodes
from bench.figures import Spread

TARGET_SECONDS = 0.002
REQUEST = b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/plain\r\n\r\n"
WARM_UP = 20


@dataclass(frozen=True, slots=True)
class Scrapes:
    """One way of scraping, many times."""

    mode: str
    spread: Spread
    series: int
    body_bytes: int
    inside_seconds: float

    def __str__(self) -> str:
        one = self.spread
        times = (one.median_seconds, one.p99_seconds, one.mean_seconds, self.inside_seconds)
        return f"{self.mode:<22}" + "".join(f"{1000 * seconds:>9.2f}" for seconds in times)


def main() -> None:
    options = _options()
    simulated = ["--simulate", str(options.devices)] if options.simulate else []
    node = nullcontext(dict(os.environ)) if simulated else nodes.standin(options.devices, 40)
    with node as environment, _exporter(simulated, dict(environment)) as port:
        every = [
            measure(port, "in a tight loop", options.scrapes, 0.0),
            measure(port, f"every {options.pause * 1000:g} ms", options.scrapes, options.pause),
        ]
    print(f"{options.devices} devices, {every[0].series} series, {every[0].body_bytes} bytes")
    print(f"{'milliseconds':<22}{'median':>9}{'p99':>9}{'mean':>9}{'inside':>9}")
    print("\n".join(map(str, every)))
    worst = max(scrapes.spread.p99_seconds for scrapes in every)
    word = "reached" if worst < TARGET_SECONDS else "NOT reached"
    print(f"{word}: a scrape under {1000 * TARGET_SECONDS:g} ms at p99 ({1000 * worst:.2f} ms)")
    if options.json:
        options.json.write_text(_record(every), encoding="utf-8")


def measure(port: int, mode: str, count: int, pause_seconds: float) -> Scrapes:
    """Scrape again and again; the pause lets the processor's caches go cold, as in use."""
    scrape(port)  # the very first waits for the first look at the devices
    seconds, first, body = [], scrape(port), b""
    for _ in range(count + WARM_UP):
        time.sleep(pause_seconds)
        began = time.perf_counter()
        body = scrape(port)
        seconds.append(time.perf_counter() - began)
    series = sum(not line.startswith(b"#") for line in body.splitlines())
    return Scrapes(mode, Spread.of(seconds[WARM_UP:]), series, len(body), _inside(first, body))


def _inside(first: bytes, last: bytes) -> float:
    """The mean time that the exporter itself counted, without connecting and waking up."""
    spent, scrapes = (_counter(last, name) - _counter(first, name)
                      for name in (b"scrape_seconds_total", b"scrapes_total"))  # fmt: skip
    return spent / scrapes


def _counter(body: bytes, name: bytes) -> float:
    found = re.search(rb"^andon_" + name + rb" (\S+)$", body, re.MULTILINE)
    assert found, name
    return float(found[1])


def scrape(port: int) -> bytes:
    """A scraper that itself costs next to nothing; it has all when it has what was announced."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(REQUEST)
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
def _exporter(options: list[str], environment: dict[str, str]) -> Iterator[int]:
    command = [sys.executable, "-m", "andon.cli", "exporter", "--port", "0", *options]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        found = re.search(r"127\.0\.0\.1:(\d+)/metrics", process.stderr.readline())
        assert found, "the exporter did not start"
        yield int(found[1])
    finally:
        process.terminate()
        process.wait(30)


def _record(every: list[Scrapes]) -> str:
    found = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": " ".join(["python", "-m", "bench.exporter", *sys.argv[1:]]),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "scrapes": [asdict(scrapes) for scrapes in every],
    }
    return json.dumps(found, indent=1) + "\n"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.exporter", description=__doc__)
    parser.add_argument("--devices", type=int, default=8)
    parser.add_argument("--scrapes", type=int, default=500)
    parser.add_argument("--pause", type=float, default=0.02, metavar="SECONDS")
    parser.add_argument("--simulate", action="store_true", help="simulated devices, no stand-in")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    return parser.parse_args()


if __name__ == "__main__":
    main()
