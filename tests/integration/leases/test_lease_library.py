"""`andon.lease` in programs: threads, forks, kills, coroutines, decorators."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from andon.host.users import user_name
from andon.leases.book.lease_book import Book
from tests.integration.conftest import andon, is_alive
from tests.integration.leasing import entries, held, kill, line
from tests.support.waiting import wait_for

PRELUDE = """\
import os, sys, time, andon
lease = lambda *a, **k: andon.lease(*a, simulated=True, **k)
"""


@pytest.fixture(autouse=True)
def _book(own_places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANDON_SIMULATE", "4")
    monkeypatch.setenv("ANDON_SIMULATE_SCENARIO", "idle")


def program(body: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", PRELUDE + textwrap.dedent(body)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def output(body: str) -> list[str]:
    process = program(body)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out.splitlines()


def holder() -> int:
    [entry] = entries()
    assert entry.lease is not None
    pid: int = entry.lease.owner.pid
    return pid


def test_a_lease_is_a_context_manager_and_leaves_nothing() -> None:
    said = output("""
        with lease(gpus=2, memory="10GiB", timeout=120) as held:
            print(held.indices, held.stands, held.until - time.time() > 8 * 3600 - 60)
            print(held.environment["CUDA_VISIBLE_DEVICES"] == ",".join(held.uuids))
            held.extend("9h")
            print(held.until - time.time() > 9 * 3600 - 60)
            pid = held.lease.owner.pid
        print(held.stands, held.until)
        try:
            os.kill(pid, 0)
            print("the holder is left")
        except ProcessLookupError:
            print("gone")
    """)
    assert said == ["[0, 1] True True", "True", "True", "False None", "gone"]
    assert entries() == []


def test_it_is_also_a_decorator_and_an_async_one() -> None:
    said = output("""
        import asyncio

        @lease(gpus=4)
        def train(x):
            return x + len(andon.get_gpu_monitor().get_available_gpus())

        @lease(gpus=4)
        async def serve():
            await asyncio.sleep(0)
            return "served"

        async def main():
            async with lease(gpus=1) as one, lease(gpus=2) as two:
                print(sorted(one.indices + two.indices))
            print(await serve())
            async with lease(gpus=4):
                try:
                    await asyncio.wait_for(lease(gpus=1, timeout=None).__aenter__(), 0.5)
                except TimeoutError:
                    print("gave up")
        print(train(1), train(2))
        asyncio.run(main())
    """)
    assert said == ["5 6", "[0, 1, 2]", "served", "gave up"]
    assert entries() == []


def test_what_cannot_be_had_says_why() -> None:
    said = output("""
        with lease(gpus=3):
            for asked, error in (
                (dict(gpus=2, timeout=0), "Conflict"),
                (dict(gpus=2, timeout=0.2), "TimedOut"),
                (dict(gpus=9, timeout=120), "Unavailable"),
                (dict(gpus=-1), "Invalid"),
            ):
                try:
                    lease(**asked).acquire()
                except Exception as found:
                    print(type(found).__name__ == error, found)
            try:
                andon.lease(gpus=1).acquire()
            except Exception as found:
                print(found)
    """)
    assert said[0].startswith("True 2 GPUs requested, 1 available")
    assert said[1].startswith("True 2 GPUs requested, 1 available after")
    assert said[2] == "True 9 GPUs requested, only 4 visible"
    assert said[3].startswith("True '-1' is not a number of GPUs")
    assert "simulated" in said[4]
    assert entries() == []


def test_a_lease_ends_by_itself_and_the_program_can_see_it() -> None:
    said = output("""
        with lease(gpus=1, seconds=0.3) as held:
            while held.stands:
                time.sleep(0.01)
            print("ended")
            try:
                held.extend(5)
            except Exception as gone:
                print(type(gone).__name__, str(gone) == f"lease {held.id} expired")
    """)
    assert said == ["ended", "Gone True"]


def test_a_killed_program_holds_nothing_and_its_holder_leaves() -> None:
    process = program("""
        with lease(gpus=4) as held:
            print("held", flush=True)
            time.sleep(1000)
    """)
    assert line(process) == "held"
    pid = holder()
    assert len(held()) == 1
    process.kill()
    process.communicate()
    wait_for(lambda: not is_alive(pid))
    assert entries() == []


def test_a_killed_holder_does_not_lose_the_lease() -> None:
    process = program("""
        with lease(gpus=4) as held:
            print("held", flush=True)
            sys.stdin.readline()
            print(held.stands, flush=True)
            time.sleep(1000)
    """)
    assert line(process) == "held"
    kill(holder())
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()
    assert line(process) == "True"
    assert len(held()) == 1
    process.kill()
    process.communicate()
    # Where the holder died before it took them, the kernel closes the descriptors in its time.
    wait_for(lambda: held() == [])


def test_a_forked_child_neither_gives_back_nor_loses_what_its_parent_holds() -> None:
    process = program("""
        with lease(gpus=4) as held:
            if os.fork() == 0:
                held.release()
                sys.exit(0)
            os.wait()
            print("child left", flush=True)
            if os.fork() == 0:
                print(os.getpid(), flush=True)
                time.sleep(1000)
            time.sleep(1000)
    """)
    assert line(process) == "child left"
    assert len(held()) == 1
    child = int(line(process))
    process.kill()
    process.wait()
    assert len(held()) == 1  # the child goes on with the work
    keeper = holder()
    kill(child)
    wait_for(lambda: not is_alive(keeper))
    assert entries() == []
    for pipe in (process.stdin, process.stdout, process.stderr):
        assert pipe is not None
        pipe.close()


def test_the_owner_takes_it_back_and_the_program_goes_on_without_it() -> None:
    process = program("""
        with lease(gpus=1) as held:
            print("held", flush=True)
            print(held.why_ended)
            while held.stands:
                time.sleep(0.01)
            print("taken back:", held.why_ended, flush=True)
            try:
                held.extend("1h")
            except Exception as gone:
                print(type(gone).__name__, gone, flush=True)
    """)
    assert line(process) == "held"
    [name] = held()
    assert andon("release", name, "--note", "maintenance at noon").code == 0
    said = f"{user_name(os.getuid())} released lease {name}: maintenance at noon"
    assert (line(process), line(process)) == ("None", f"taken back: {said}")
    assert line(process) == f"Gone {said}"
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0
    assert err == f"{said}; its devices may have been used by others since\n"


def test_a_decorated_function_knows_its_devices_and_a_nested_one_gets_others() -> None:
    said = output("""
        import asyncio, subprocess, threading
        MASK = "CUDA_VISIBLE_DEVICES"
        os.environ[MASK] = "0,1,2"

        @lease(gpus=1, timeout=120)
        def inner(held):
            assert os.environ[MASK] == held.uuids[0]
            return held.indices

        @lease(gpus=1, timeout=120)
        def outer(held):
            asked = [sys.executable, "-c", f"import os; print(os.environ[{MASK!r}])"]
            seen = subprocess.run(asked, capture_output=True, text=True).stdout.strip()
            print(seen == held.uuids[0], os.environ["ANDON_LEASE"] == held.id)
            print(sorted(held.indices + inner()))
            return held.indices

        first = outer()
        print(os.environ[MASK], "ANDON_LEASE" in os.environ, outer() == first)

        @lease(gpus=1, timeout=120)
        async def serve(all_of_us, held):
            await all_of_us.wait()
            return held.indices[0]

        async def together():
            here = asyncio.Barrier(3)
            return len({*await asyncio.gather(serve(here), serve(here), serve(here))})

        print(asyncio.run(together()), os.environ[MASK])
    """)
    call = ["True True", "[0, 1]"]
    assert said == [*call, *call, "0,1,2 False True", "3 0,1,2"]
    assert entries() == []


def test_threads_hold_leases_of_their_own() -> None:
    said = output("""
        import threading
        seen, lock = [], threading.Lock()
        def work():
            with lease(gpus=1, timeout=120) as held:
                with lock:
                    seen.append(held.indices[0])
                time.sleep(0.05)
        threads = [threading.Thread(target=work) for _ in range(8)]
        for t in threads: t.start()
        for t in threads: t.join()
        print(len(seen), sorted(set(seen)))
    """)
    assert said == ["8 [0, 1, 2, 3]"]
    assert entries() == []


def test_an_interrupt_ends_the_waiting_at_once_and_leaves_no_ticket() -> None:
    process = program("""
        with lease(gpus=4):
            print("held", flush=True)
            try:
                lease(gpus=1, timeout=None).acquire()
            except KeyboardInterrupt:
                print("left", flush=True)
    """)
    assert line(process) == "held"
    wait_for(lambda: len(Book(make=False).waiting()) == 1)
    kill(process.pid, signal.SIGINT)
    assert line(process) == "left"
    process.communicate(timeout=120)
    assert entries() == []
    assert Book(make=False).waiting() == []


def test_a_program_with_many_open_files_has_a_holder_that_stays() -> None:
    said = output("""
        import resource
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1200), hard))
        files = [open(os.devnull) for _ in range(1100)]
        with lease(gpus=1, timeout=120) as held:
            time.sleep(0.5)
            print(held.stands, held._holder.lives)
    """)
    assert said == ["True True"]


def test_a_holder_that_was_killed_meanwhile_leaves_no_lease() -> None:
    said = output("""
        import signal; from andon.errors import AndonError
        from andon.leases.book.holder import HolderProcess
        give = HolderProcess.give
        def give_late(keeper, held):
            os.kill(keeper.pid, signal.SIGKILL)
            keeper.process.wait()
            give(keeper, held)
        HolderProcess.give = give_late
        try:
            lease(gpus=1, timeout=120).acquire()
        except AndonError as error:
            print(type(error).__name__, error)
        HolderProcess.give = give
        with lease(gpus=4, timeout=0) as held:
            print(len(held.devices))
    """)
    assert said == ["Unavailable the lease's holder has ended: Broken pipe", "4"]


def test_an_interval_that_is_none_keeps_no_sampler_open() -> None:
    said = output("""
        from andon.api import watch as library; from andon.errors import AndonError
        try:
            andon.watch(0.0)
        except AndonError as error:
            print(type(error).__name__, library.shared()._sessions)
    """)
    assert said == ["Invalid 0"]
