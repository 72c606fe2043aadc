"""The kept Python names: one monitor per process, safe from threads and after a fork."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC
from typing import Any

import pytest

import andon
from andon.api import watch as library
from tests.integration.conftest import is_alive
from tests.support.surroundings import fresh_library
from tests.support.waiting import wait_for


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Four simulated devices, and nothing left of an earlier test's sampler."""
    monkeypatch.setenv("ANDON_SIMULATE", "4")
    fresh_library(monkeypatch)
    yield
    if library._shared is not None:
        library._shared.close()


def reader_pids() -> list[int]:
    sampler = library.shared()._sampler
    return sampler.reader_pids() if sampler else []


def in_a_thread(act: Callable[[], Any]) -> Any:
    """What it returns in a thread of its own."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(act).result()


def test_one_monitor_per_process() -> None:
    assert andon.get_gpu_monitor() is andon.get_gpu_monitor()


def test_a_query_has_the_documented_fields() -> None:
    found = andon.get_gpu_monitor().query_gpus()
    assert found is not None
    assert found.timestamp.tzinfo is UTC
    assert [gpu.index for gpu in found.gpus] == [0, 1, 2, 3]
    first = found.gpus[0]
    assert first.memory_total_mb is not None
    assert 100_000 < first.memory_total_mb < 160_000
    assert first.utilization_percent is not None
    assert first.score is not None
    assert 0 <= first.score <= 1


def test_a_cached_answer_is_given_again_and_a_fresh_one_is_not() -> None:
    monitor = andon.get_gpu_monitor()
    first = monitor.query_gpus()
    assert first is not None
    again, fresh = monitor.query_gpus(), monitor.query_gpus(use_cache=False)
    assert again is not None
    assert fresh is not None
    assert again.timestamp == first.timestamp
    assert fresh.timestamp > first.timestamp


def test_starting_and_stopping_drop_the_cache() -> None:
    monitor = andon.get_gpu_monitor()
    first = monitor.query_gpus()
    monitor.start_monitoring(0.1)
    second = monitor.query_gpus()
    monitor.stop_monitoring()
    third = monitor.query_gpus()
    assert first is not None
    assert second is not None
    assert third is not None
    assert first.timestamp < second.timestamp < third.timestamp


def test_available_devices_come_best_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANDON_SIMULATE_SCENARIO", "idle")
    monitor = andon.get_gpu_monitor()
    found = monitor.get_available_gpus()
    scores = {g.index: g.score for g in (monitor.query_gpus() or pytest.fail("none")).gpus}
    assert found
    assert found == sorted(found, key=lambda index: -(scores[index] or 0))
    assert monitor.get_available_gpus(min_memory_mb=10**9) == []


def test_a_device_by_index_or_none() -> None:
    monitor = andon.get_gpu_monitor()
    info = monitor.get_gpu_info(2)
    assert info is not None
    assert info.index == 2
    assert monitor.get_gpu_info(99) is None


def test_metrics_and_processes_are_plain() -> None:
    monitor = andon.get_gpu_monitor()
    (first, *_) = monitor.collect_metrics()
    percent = first.memory_percent()
    assert percent is not None
    assert 0 < percent <= 100
    assert json.dumps(monitor.get_gpu_metrics())
    processes = monitor.get_gpu_processes()
    assert {"gpu_index", "gpu_uuid", "pid", "user", "memory_bytes"} <= set(processes[0])


def test_stopping_what_was_not_started_is_none() -> None:
    assert andon.get_gpu_monitor().stop_monitoring() is None


def test_a_session_sums_up_in_the_documented_shape() -> None:
    monitor = andon.get_gpu_monitor()
    monitor.start_monitoring(0.1)
    summary = monitor.stop_monitoring()
    assert summary is not None
    assert set(summary) == {"monitoring_duration_seconds", "sample_count", "gpu_stats", "faults"}
    assert summary["sample_count"] >= 1, "however short it was"
    assert set(summary["gpu_stats"]) == {"0", "1", "2", "3"}
    stats = summary["gpu_stats"]["0"]
    assert set(stats["utilization"]) == {"min", "max", "mean", "samples"}
    assert set(stats["temperature_c"]) == {"min", "max", "mean"}


def test_overlapping_sessions_are_independent() -> None:
    monitor = andon.get_gpu_monitor()
    long = monitor.start_monitoring(0.1)
    short = monitor.start_monitoring(0.1)
    first = short.stop()
    wait_for(lambda: long._summary.sample_count > first["sample_count"])
    second = long.stop()
    assert second["sample_count"] > first["sample_count"]
    assert short.stop() == first, "a second stop gives the same"


def test_stop_monitoring_prefers_the_callers_own_session() -> None:
    monitor = andon.get_gpu_monitor()
    mine = monitor.start_monitoring(0.1)
    theirs = in_a_thread(lambda: monitor.start_monitoring(0.1))
    assert monitor.stop_monitoring() == mine.stop()
    assert monitor.stop_monitoring() == theirs.stop(), "it had none left, so the process's latest"


def test_stop_monitoring_from_another_thread_ends_the_processs_latest_session() -> None:
    """A web handler or an executor may start and stop in different threads."""
    monitor = andon.get_gpu_monitor()
    first, second = monitor.start_monitoring(0.1), monitor.start_monitoring(0.1)
    assert in_a_thread(monitor.stop_monitoring) == second.stop()
    assert in_a_thread(monitor.stop_monitoring) == first.stop()
    assert in_a_thread(monitor.stop_monitoring) is None
    assert library.shared()._sessions == 0, "a session that nobody can stop samples for ever"


def test_many_threads_stop_each_session_once() -> None:
    """All at once: none is stopped twice, and none is left."""
    monitor = andon.get_gpu_monitor()
    sessions = [monitor.start_monitoring(0.1) for _ in range(4)]
    found: list[object] = []
    threads = [
        threading.Thread(target=lambda: found.append(monitor.stop_monitoring())) for _ in sessions
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert None not in found
    assert library.shared()._sessions == 0


def test_a_session_that_was_stopped_is_nobodys_latest() -> None:
    monitor = andon.get_gpu_monitor()
    first = monitor.start_monitoring(0.1)
    second = monitor.start_monitoring(0.1)
    second.stop()
    assert monitor.stop_monitoring() == first.stop()
    assert monitor.stop_monitoring() is None


def test_sessions_that_ended_are_not_kept() -> None:
    monitor = andon.get_gpu_monitor()
    monitor.start_monitoring(0.1).stop()
    assert monitor._sessions == []


def test_a_strangers_variable_does_not_end_the_monitoring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANDON_BOGUS", "1")
    assert andon.get_gpu_monitor().is_available()


def test_many_threads_share_one_reader() -> None:
    monitor = andon.get_gpu_monitor()
    found: list[object] = []
    threads = [
        threading.Thread(target=lambda: found.append(monitor.query_gpus(use_cache=False)))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert None not in found
    assert len(reader_pids()) == 1


FORK = """
import os, andon
from andon.api import watch as library
monitor = andon.get_gpu_monitor()
monitor.start_monitoring(0.1)
before = monitor.query_gpus(use_cache=False)
parent_reader = library.shared()._sampler.reader_pids()
watching = andon.watch(0.2)
sampler = library.shared()._sampler
spawned = sampler._vendors[0]._reader._spawned
pipes = [spawned.requests, spawned.answers]
child = os.fork()
if child == 0:
    for pipe in pipes:
        assert not os.path.exists(f"/proc/self/fd/{pipe}"), "the parent's pipe is still open"
    for _ in watching:  # what was queued may be read; then it ends, and does not wait for ever
        pass
    assert monitor.stop_monitoring() is None, "the parent's session is not the child's"
    assert library._shared is None
    found = monitor.query_gpus()
    assert found is not None and len(found.gpus) == 4
    assert library.shared()._sampler.reader_pids() != parent_reader
    os._exit(0)
_, status = os.waitpid(child, 0)
assert os.waitstatus_to_exitcode(status) == 0
assert library.shared()._sampler.reader_pids() == parent_reader, "the child did not touch it"
assert monitor.query_gpus(use_cache=False) is not None
assert monitor.stop_monitoring()["sample_count"] >= 1
print("fine")
"""


def test_a_forked_child_begins_with_nothing_and_disturbs_nothing() -> None:
    done = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, timeout=120)
    assert done.stdout == "fine\n", done.stderr


ORPHAN = """
import os, sys, time, andon
from andon.api import watch as library
andon.get_gpu_monitor().query_gpus()
print(library.shared()._sampler.reader_pids()[0], flush=True)
if os.fork() == 0:
    time.sleep(600)  # a child that lives on and does nothing
os.kill(os.getpid(), 9)
"""


def test_a_reader_does_not_live_on_for_a_forked_child() -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", ORPHAN], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert parent.stdout is not None
    reader = int(parent.stdout.readline())
    try:
        wait_for(lambda: not is_alive(reader))
    finally:
        os.killpg(parent.pid, 9)
        parent.wait()
        parent.stdout.close()


def test_no_gpu_is_none_and_not_an_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANDON_SIMULATE", "0")
    monitor = andon.get_gpu_monitor()
    assert monitor.query_gpus() is None
    assert not monitor.is_available()
    assert monitor.get_available_gpus() == []
    assert monitor.collect_metrics() == []


def test_watching_gives_snapshots() -> None:
    with andon.watch(0.1) as snapshots:
        first = next(iter(snapshots))
    assert first.simulated
    assert len(first.devices) == 4
