"""`andon map --image`: a real Docker engine, GPUs of the stand-in."""

import os
import signal
import sys
from pathlib import Path

import pytest

from tests.integration.conftest import Outcome, andon
from tests.integration.contained import LONG_SECONDS, NO_NETWORK, containers, first_pid
from tests.integration.leasing import end_of, entries, held, records, running
from tests.integration.parts import Docker
from tests.standin import StandIn
from tests.support.waiting import wait_for

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="containers of Linux"),
    pytest.mark.timeout(300),  # several containers one after the other
]
IMAGE = ("--image", "tiny", NO_NETWORK)
WORKER = """
while read line; do
    index=${line#*: }
    echo "$NVIDIA_VISIBLE_DEVICES $HOSTNAME"
    echo "{\\"index\\": ${index%%,*}, \\"ok\\": true}"
done
"""


def in_image(*words: str, items: tuple[str, ...]) -> tuple[str, ...]:
    """`andon map …` up to the command."""
    Path("items.txt").write_text("".join(f"{item}\n" for item in items))
    return ("map", *IMAGE, "--items", "items.txt", *words, "--")


def map_(*words: str) -> Outcome:
    return andon(*words, timeout_seconds=LONG_SECONDS)


def assert_nothing_is_left(docker: Docker, work: Path) -> None:
    assert (containers(docker), held()) == ([], [])
    assert list((work.parent / "homes").iterdir()) == []


def test_each_item_has_a_container_with_its_workers_gpu(docker: Docker, work: Path) -> None:
    models = work.parent / "models"
    models.mkdir()
    (models / "weights").write_text("loaded\n")
    script = f"cat {models}/weights; echo $0 $NVIDIA_VISIBLE_DEVICES; touch made-$0; test $0 != b"
    options = ("--gpus", "2", "--keep-order", "--model-folder", str(models))
    before = set(docker.requested())
    done = map_(*in_image(*options, items=("a", "b", "c")), "sh", "-c", script)
    assert (done.code, "2 of 3 items done" in done.err) == (1, True), done
    assert "item b: exit code 1" in done.err
    lines = [line.split() for line in done.out.splitlines()]
    assert lines[::2] == [["loaded"]] * 3, done
    assert [line[0] for line in lines[1::2]] == ["a", "b", "c"]
    uuids = {device.uuid for device in StandIn.devices(8)}
    assert {line[1] for line in lines[1::2]} <= uuids
    assert len(set(docker.requested()) - before) == 3, "a container for each item"
    assert all((work / f"made-{item}").exists() for item in "abc")
    assert "the image tiny" in str(records(work.parent / "state"))
    assert_nothing_is_left(docker, work)
    again = map_("map", "--resume", "last", "--image", "other", "--items", "items.txt", "--", "x")
    assert (again.code, "there is no image 'other'" in again.err) == (125, True), again


def test_a_worker_that_stays_has_one_container(docker: Docker, work: Path) -> None:
    Path("worker.sh").write_text(WORKER)
    done = map_(*in_image("--gpus", "1", "--worker", items=("a", "b", "c")), "sh", "worker.sh")
    assert (done.code, "3 of 3 items done" in done.err) == (0, True), done
    first, *others = done.out.splitlines()
    assert others == [first, first], "one process, one GPU"
    assert_nothing_is_left(docker, work)


def test_after_a_kill_the_container_ends_with_its_item_and_the_next_map_goes_on(
    docker: Docker, work: Path
) -> None:
    script = "while ! test -e go; do sleep 0.1; done; touch done"
    command = (*in_image("--gpus", "1", items=("x",)), "sh", "-c", script)
    with running(*command) as process:
        first_pid(docker)
        assert [e.lease.containers for e in entries()] == [tuple(containers(docker))]
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert len(held()) == 1, "the item that runs keeps its GPU"
        (work / "go").touch()
        wait_for((work / "done").exists, LONG_SECONDS)
        wait_for(lambda: not held(), LONG_SECONDS)
    assert_nothing_is_left(docker, work)
    again = map_(*command[:1], "--resume", "last", *command[1:])
    assert (again.code, "1 of 1 items done" in again.err) == (0, True), again


def test_a_second_ctrl_c_and_the_time_limit_of_an_item_end_the_container(
    docker: Docker, work: Path
) -> None:
    stubborn = "trap '' TERM INT; while true; do sleep 0.1; done"
    command = (*in_image("--gpus", "1", items=("x", "y")), "sh", "-c", stubborn)
    with running(*command) as process:
        first_pid(docker)
        process.send_signal(signal.SIGINT)
        stderr = process.stderr
        assert stderr is not None
        wait_for(lambda: "no further items" in stderr.readline(), LONG_SECONDS)
        assert len(containers(docker)) == 1
        process.send_signal(signal.SIGINT)
        ended = end_of(process, LONG_SECONDS)
    assert (ended.code, "0 of 2 items done" in ended.err) == (130, True), ended
    assert_nothing_is_left(docker, work)
    limited = in_image("--gpus", "1", "--item-timeout", "2s", items=("1000",))
    late = map_(*limited, "sleep")
    assert (late.code, "(--item-timeout)" in late.err) == (1, True), late
    assert_nothing_is_left(docker, work)
