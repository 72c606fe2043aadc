"""What a load client takes, how exact its times are, and a sweep of 1,000: `python -m bench.load`.

Beside it, in the same run, a plain loop on asyncio's streams that parses each chunk with `json`.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from andon.work.load.driver import DrivenLoad
from andon.work.rules.load import LoadFigures, LoadOrder, percentiles
from bench.history import Target

CHUNKS_A_SECOND, P99_SHARE, SUBMIT_SECONDS, COMPARE_SECONDS = 8000.0, 0.02, 2.0, 1.0


@contextmanager
def served(tokens: int, gap: float) -> Iterator[tuple[str, list[float]]]:
    """A server in a process of its own: its URL, and how long each answer took by its clock."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.load_server", str(tokens), str(gap)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    port, times = int(process.stdout.readline()), list[float]()
    lines = process.stdout
    thread = threading.Thread(target=lambda: times.extend(map(float, lines)), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{port}/v1/chat/completions", times
    finally:
        process.kill()
        process.wait()
        thread.join(5)


def load(url: str, concurrency: int, seconds: float, clients: int = 1) -> LoadFigures:
    order = LoadOrder(url, "m", ("a",), concurrency=concurrency, seconds=seconds)
    return DrivenLoad(order, clients).run()


async def plain_loop(url: str, concurrency: int, seconds: float) -> float:
    """Chunks a second of the loop that most people would write."""
    port, count, until = int(url.split(":")[2].split("/")[0]), 0, time.perf_counter() + seconds
    body = json.dumps({"model": "m", "stream": True, "messages": []}).encode()
    request = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"

    async def work() -> None:
        nonlocal count
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while time.perf_counter() < until:
            writer.write(request % len(body) + body)
            while (line := await reader.readline()) != b"0\r\n":
                if line.startswith(b"data: {"):
                    count += bool(json.loads(line[6:])["choices"][0]["delta"]["content"])
            await reader.readline()
        writer.close()

    began = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(concurrency)))
    return count / (time.perf_counter() - began)


def sweep(jobs: int) -> tuple[float, float]:
    """Seconds to submit so many combinations, and to compare as many runs."""
    from andon.model.run.record import RunKind, RunRow, RunState
    from andon.runs.rules.reports.sweep import sweep_table

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        own = {"XDG_STATE_HOME": f"{folder}/s", "ANDON_LEASE_DIR": f"{folder}/b"}
        environment = {**os.environ, **own, "ANDON_JOBS_IDLE": "0s"}
        andon = [sys.executable, "-m", "andon"]
        subprocess.run([*andon, "jobs", "pause"], env=environment, check=True, capture_output=True)
        words = ["submit", "--simulate", "1", "--param", f"a=1..{jobs}", "--name", "s", "--"]
        began = time.perf_counter()
        subprocess.run(
            [*andon, *words, "true", "{a}"], env=environment, check=True, capture_output=True
        )
        submitted = time.perf_counter() - began
    rows = [
        RunRow(
            f"r{n}", "s", RunKind.JOB, RunState.SUCCEEDED, "n", float(n), "p",
            duration_seconds=1.0, params={"a": n // 5, "seed": n % 5, "job": str(n)},
            last_values={"loss": float(n % 97)},
        )
        for n in range(jobs)
    ]  # fmt: skip
    began = time.perf_counter()
    assert sweep_table(rows, ["loss", "time"]) is not None
    return submitted, time.perf_counter() - began


def lag(found: LoadFigures) -> str:
    late = f"lag p99 {1000 * (found.lag_seconds or 0.0):.1f} ms"
    return late + ", client-bound" * found.client_bound


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=10.0)
    options.add_argument("--concurrency", type=int, default=60)
    options.add_argument("--jobs", type=int, default=1000)
    asked = options.parse_args()
    with served(128, 0.0) as (url, _):
        found = load(url, asked.concurrency, asked.seconds)
        lag = (
            f"lag p99 {1000 * (found.lag_seconds or 0):.1f} ms"
            + ", client-bound" * found.client_bound
        )
        print(f"one client at full speed: {found.chunks_per_second:,.0f} chunks/s, {lag}")
        plain = asyncio.run(plain_loop(url, asked.concurrency, asked.seconds))
        print(f"a plain loop beside it: {plain:,.0f} chunks/s")
    # A pace that one core must take without being late: 90 requests at a time, 100 chunks/s each.
    with served(128, 0.01) as (url, times):
        paced = load(url, 90, asked.seconds)
        own, theirs = paced.end_to_end, percentiles(times)
    assert own is not None
    assert theirs is not None
    off = abs(own.p99 - theirs.p99) / theirs.p99
    lag = (
        f"lag p99 {1000 * (paced.lag_seconds or 0):.1f} ms" + ", client-bound" * paced.client_bound
    )
    print(f"paced: {paced.chunks_per_second:,.0f} chunks/s, {lag}")
    print(f"p99 {own.p99:.3f} s, by the server {theirs.p99:.3f} s")
    submitted, compared = sweep(asked.jobs)
    print(
        Target(
            "streamed chunks, µs each at most", 1e6 / found.chunks_per_second, 1e6 / CHUNKS_A_SECOND
        )
    )
    print(Target("error of p99, share of the server's", off, P99_SHARE))
    print(Target(f"submit of {asked.jobs} combinations, s", submitted, SUBMIT_SECONDS))
    print(Target(f"comparison of {asked.jobs} runs, s", compared, COMPARE_SECONDS))


if __name__ == "__main__":
    main()
