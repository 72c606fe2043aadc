"""Work handed out on a real GPU: maps, jobs that run out of memory, processes that are ended."""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.device.scenes import Scene, SkippedError
from tests.device.sharing import PATIENCE_SECONDS, book, environment_of
from tests.device.surfaces import COMMAND

ITEMS = 100
WORKER = """
import json, sys, torch
torch.cuda.init()
kept = torch.ones(1 << 20, device="cuda")
for line in sys.stdin:
    asked = json.loads(line)
    kept.add_(1)
    found = [torch.cuda.device_count(), float(kept[0])]
    print(json.dumps({"index": asked["index"], "ok": True, "result": found}), flush=True)
    print("loaded", *found, flush=True)
"""
TOO_MUCH = "import torch; torch.empty(1 << 50, dtype=torch.uint8, device='cuda')"
HOLD = (
    "import time, torch; kept = torch.empty(1 << 28, dtype=torch.uint8, device='cuda'); "
    "print('started', flush=True); time.sleep(600)"
)


def _andon(words: list[str], env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *words], capture_output=True, text=True, env=environment_of(env),
        timeout=PATIENCE_SECONDS,
    )  # fmt: skip


def _needs_torch() -> None:
    found = subprocess.run(
        [sys.executable, "-c", "import torch; assert torch.cuda.is_available()"],
        capture_output=True,
    )
    if found.returncode:
        raise SkippedError("torch with CUDA is not installed here")


def a_map_keeps_what_its_workers_have_loaded(scene: Scene) -> str:
    _needs_torch()
    with book() as env, tempfile.TemporaryDirectory() as folder:
        items = Path(folder, "items.txt")
        items.write_text("".join(f"{number}\n" for number in range(ITEMS)))
        began = time.monotonic()
        done = _andon(
            ["map", "--items", str(items), "--worker", "--", sys.executable, "-c", WORKER], env
        )
        took = time.monotonic() - began
        assert done.returncode == 0, done.stderr
        counts = [line.split() for line in done.stdout.splitlines() if line.startswith("loaded")]
    assert {row[1] for row in counts} == {"1"}, "a worker sees one device"
    assert max(float(row[2]) for row in counts) >= ITEMS / 2, "it stays for its items"
    return f"{ITEMS} items in {took:.1f} s"


def a_job_that_ran_out_of_memory_is_tried_again_and_says_so(scene: Scene) -> str:
    _needs_torch()
    with book() as env:
        submitted = _andon(["submit", "--retries", "1", "--", sys.executable, "-c", TOO_MUCH], env)
        assert submitted.returncode == 0, submitted.stderr
        number = submitted.stdout.strip()
        waited = _andon(["jobs", "wait", number], env)
        assert waited.returncode != 0
        shown = json.loads(_andon(["jobs", "--all", "--json"], env).stdout)
        [job] = shown["jobs"]
        said = json.dumps(job)
        assert job["state"] == "failed", said
        assert "memory" in said, said
        _andon(["jobs", "rm", number], env)
    return f"job {number}: {job.get('reason') or job['state']}"


def kill_ends_a_process_on_the_device(scene: Scene) -> str:
    _needs_torch()
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "started"
        with book() as env:
            done = _andon(["kill", str(process.pid), "--yes"], env)
        assert done.returncode == 0, done.stderr
        assert process.wait(PATIENCE_SECONDS) != 0
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        process.communicate()
    return (done.stdout + done.stderr).strip().splitlines()[-1]
