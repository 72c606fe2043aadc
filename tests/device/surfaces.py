"""The command line, sessions, masks and forks with a real driver."""

import json
import os
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import andon
from andon.app.sampler import open_sampler
from andon.app.settings import load_settings
from andon.host.processes.facts import sees_host_pids
from andon.model import wire, wire_in
from andon.model.device import Snapshot
from tests.device.scenes import Scene, SkippedError

COMMAND = (sys.executable, "-m", "andon.cli")
DEADLINE_SECONDS = 30.0
RUNS = 5
BUSY_PERCENT = 50


def run(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        env={**os.environ, **environment},
        check=False,
    )


def status(**environment: str) -> Snapshot:
    done = run("status", "--json", **environment)
    assert done.returncode == 0, (done.returncode, done.stderr)
    return wire_in.snapshot_from_json(wire.loads(done.stdout, wire.ANSWER))


def status_answers_and_leaves_with_zero(scene: Scene) -> str:
    walls = []
    for _ in range(RUNS):
        started = time.perf_counter()
        done = run("status")
        walls.append(time.perf_counter() - started)
        assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
    assert andon.snapshot().devices[0].device.name.split()[-1] in done.stdout
    return f"median {statistics.median(walls) * 1e3:.0f} ms of {RUNS}, best {min(walls) * 1e3:.0f}"


def top_shows_the_device_and_ends_by_a_key(scene: Scene) -> str:
    """In a terminal of 120x40: the time until the model is on the screen, and a clean end."""
    import fcntl
    import pty
    import struct
    import termios

    model = andon.snapshot().devices[0].device.name.split()[-1].encode()
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "XDG_STATE_HOME": folder, "TERM": "xterm-256color"}
        began = time.perf_counter()
        process = subprocess.Popen(
            [*COMMAND, "top"], stdin=slave, stdout=slave, stderr=slave, env=environment
        )
        os.close(slave)
        seen, first, end = b"", None, time.monotonic() + DEADLINE_SECONDS
        while process.poll() is None and time.monotonic() < end:
            if select.select([master], [], [], 0.1)[0]:
                try:
                    seen += os.read(master, 65536)
                except OSError:  # it has ended
                    break
            if first is None and model in seen:
                first = time.perf_counter() - began
            if first is not None and b"\x1b[?1006h" in seen:  # Textual listens
                os.write(master, b"q")
                time.sleep(0.1)
        code = process.wait(DEADLINE_SECONDS)
    while select.select([master], [], [], 0.1)[0]:  # what it wrote last
        try:
            seen += os.read(master, 65536)
        except OSError:
            break
    os.close(master)
    assert code == 0, (code, seen[-400:])
    assert first is not None, seen[-400:]
    assert b"\x1b[?1049l" in seen, "the terminal is restored"
    return f"first picture after {first:.2f} s"


def watch_writes_lines_that_parse(scene: Scene) -> str:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "looks.jsonl"
        done = run("watch", "-n", "3", "-i", "0.5", "--out", str(out), "--quiet")
        assert done.returncode == 0, (done.returncode, done.stderr)
        lines = out.read_text(encoding="utf-8").splitlines()
    looks = [wire_in.snapshot_from_json(json.loads(line)) for line in lines]
    assert len(looks) == 3
    assert all(look.devices and look.devices[0].answered for look in looks)
    spaces = [later.at - earlier.at for earlier, later in pairwise(looks)]
    assert all(0.1 < space < 1.5 for space in spaces), spaces
    return f"{len(lines)} lines, {', '.join(f'{space:.2f} s' for space in spaces)} apart"


def a_mask_by_uuid_shows_what_is_visible(scene: Scene) -> str:
    boards = [s.device for s in andon.snapshot().devices if s.device.parent is None]
    last = boards[-1].uuid
    for mask in (last, last[:12]):
        masked = status(CUDA_VISIBLE_DEVICES=mask)
        shown = {s.device.uuid: (s.visible, s.cuda_index) for s in masked.devices}
        assert shown[last] == (True, 0), shown
        assert all(seen == (False, None) for uuid, seen in shown.items() if uuid != last), shown
    hidden = status(CUDA_VISIBLE_DEVICES="")
    assert not any(s.visible for s in hidden.devices)
    return f"{last[:12]}… is cuda:0; an empty mask hides all"


def a_forked_child_asks_for_itself_and_the_parent_goes_on(scene: Scene) -> str:
    andon.get_gpu_monitor().start_monitoring(0.5)
    try:
        before = andon.snapshot()
        answer = _in_a_forked_child()
        after = andon.snapshot()
    finally:
        summary = andon.get_gpu_monitor().stop_monitoring()
    uuids = [s.device.uuid for s in before.devices]
    assert answer["uuids"] == uuids
    assert [s.device.uuid for s in after.devices if s.answered] == uuids
    assert after.at > before.at
    assert summary is not None
    assert summary["sample_count"] >= 1
    return f"the child saw {len(uuids)} devices in {answer['seconds'] * 1e3:.0f} ms"


def _in_a_forked_child() -> dict[str, Any]:
    """Sample in a child that was forked while our threads ran; a child that hangs is killed."""
    answers, out = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking with threads is the point
        child = os.fork()
    if child == 0:
        _answer_and_leave(out)
    os.close(out)
    heard, _, _ = select.select([answers], [], [], DEADLINE_SECONDS)
    text = os.read(answers, 1 << 16) if heard else b""
    os.close(answers)
    if not text:
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert text, "the forked child did not answer"
    found: dict[str, Any] = json.loads(text)
    return found


def _answer_and_leave(out: int) -> None:
    try:
        started = time.perf_counter()
        uuids = [s.device.uuid for s in andon.snapshot().devices if s.answered]
        took = time.perf_counter() - started
        os.write(out, json.dumps({"uuids": uuids, "seconds": took}).encode())
    finally:
        os._exit(0)


def closing_twice_is_fine_and_it_opens_again(scene: Scene) -> str:
    settings = load_settings({}).settings
    sampler = open_sampler(settings)
    first = sampler.once()
    pids = sampler.reader_pids()
    sampler.close()
    sampler.close()
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids), "a reader was left behind"
    with open_sampler(settings) as again:
        assert [s.device for s in again.once().devices] == [s.device for s in first.devices]
    return "no reader is left behind"


def two_sessions_overlap_and_both_sum_up(scene: Scene) -> str:
    """Two sessions with their own intervals are independent; a third stop has nothing to end."""
    monitor = andon.get_gpu_monitor()
    monitor.start_monitoring(0.5)
    time.sleep(1.0)
    monitor.start_monitoring(1.0)
    time.sleep(2.2)
    short = monitor.stop_monitoring()
    time.sleep(0.5)
    long = monitor.stop_monitoring()
    assert monitor.stop_monitoring() is None
    assert short is not None
    assert long is not None
    assert 6 <= long["sample_count"] <= 9, long["sample_count"]
    assert 2 <= short["sample_count"] <= 4, short["sample_count"]
    for summary, seconds in ((short, 2.2), (long, 3.7)):
        assert abs(summary["monitoring_duration_seconds"] - seconds) < 1.0
        _plausible(summary, scene)
    return f"{long['sample_count']} and {short['sample_count']} samples"


def a_session_that_was_stopped_is_nobodys_latest(scene: Scene) -> str:
    """`stop_monitoring` ends the latest running session, and has nothing to end after that."""
    monitor = andon.get_gpu_monitor()
    outer = monitor.start_monitoring(0.5)
    inner = monitor.start_monitoring(0.5)
    ended = inner.stop()
    rest = monitor.stop_monitoring()
    left = monitor.stop_monitoring()
    assert rest is not ended, "the session that had been stopped was given again"
    assert rest == outer.stop()
    assert left is None
    return "the outer one was ended"


def _plausible(summary: Mapping[str, Any], scene: Scene) -> None:
    boards = [s.device for s in andon.snapshot().devices if s.device.parent is None]
    assert list(summary["gpu_stats"]) == [str(device.index) for device in boards]
    for stats in summary["gpu_stats"].values():
        for name in ("utilization", "memory_used_mb", "temperature_c", "power_draw_w"):
            low, mean, high = (stats[name][key] for key in ("min", "mean", "max"))
            assert low is not None, name
            assert 0 <= low <= mean <= high, (name, low, mean, high)
        assert stats["utilization"]["samples"] <= summary["sample_count"]
    if scene.busy:
        assert summary["gpu_stats"]["0"]["utilization"]["mean"] > BUSY_PERCENT


def activity_is_there_after_two_watched_ticks(scene: Scene) -> str:
    with andon.watch(1.0) as looks:
        for _ in range(3):
            snapshot = looks.get(DEADLINE_SECONDS)
    assert snapshot is not None
    sample, missing = snapshot.devices[0].sample, snapshot.devices[0].missing
    assert sample is not None
    if (reason := missing.get("sm_active_percent")) and "not supported" in reason:
        raise SkippedError(f"SM activity: {reason}")
    assert sample.sm_active_percent is not None, missing
    assert sample.tensor_active_percent is not None, missing
    assert sample.sm_active_percent > 50, sample.sm_active_percent
    assert sample.tensor_active_percent > 20, sample.tensor_active_percent
    return f"SM {sample.sm_active_percent} %, tensor {sample.tensor_active_percent} %"


def the_load_is_among_the_processes(scene: Scene) -> str:
    processes = andon.snapshot().devices[0].processes
    mine = next((process for process in processes if process.pid == scene.pid), None)
    if mine is None and not sees_host_pids():
        raise SkippedError(f"in a pid namespace: the driver lists {[p.pid for p in processes]}")
    assert mine is not None, processes
    assert mine.name, mine
    assert mine.user, mine
    assert mine.command, mine
    assert mine.started is not None, mine
    assert mine.memory_bytes is None or mine.memory_bytes > 100 << 20, mine
    return f"{mine.pid} {mine.name} of {mine.user}, {(mine.memory_bytes or 0) >> 20} MiB"
