"""`andon map` as people use it, over the stand-in driver."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from andon.leases.book.lease_book import Book
from tests.integration.conftest import andon
from tests.integration.leasing import end_of, held, records, running
from tests.standin import StandIn
from tests.support.waiting import wait_for

PYTHON = sys.executable
SHOW = "import os, sys; print(sys.argv[1], os.environ['CUDA_VISIBLE_DEVICES'])"
MEET = """
import os, pathlib, sys, time
item, folder, count = sys.argv[3], pathlib.Path(sys.argv[1]), int(sys.argv[2])
(folder / os.environ["CUDA_VISIBLE_DEVICES"]).touch()
while len(list(folder.iterdir())) < count:
    time.sleep(0.01)
print(item, os.environ["CUDA_VISIBLE_DEVICES"])
"""  # an item that ends when every device has begun one
EXISTS = "import os, sys; sys.exit(not os.path.exists(sys.argv[1]))"
WORKER = """
import json, os, sys
loaded = os.getpid()
for text in sys.stdin:
    asked = json.loads(text)
    print("working on", asked["item"])
    if asked["item"] == "die" and not os.path.exists("died"):
        open("died", "w").close()
        sys.exit(3)
    ok = asked["item"] != "bad"
    print(json.dumps({"index": asked["index"], "ok": ok, "result": loaded, "error": "bad item"}),
          flush=True)
"""


@pytest.fixture(autouse=True)
def _book(node: StandIn, own_places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANDON_ALERTS_NODE_CPU_PERCENT", "off")
    monkeypatch.chdir(own_places)


def items_file(*items: str) -> str:
    Path("items.txt").write_text("".join(f"{item}\n" for item in items))
    return "items.txt"


def lines_of(record: list[dict[str, Any]], event: str) -> list[dict[str, Any]]:
    return [one for one in record if one["event"] == event]


def test_the_same_output_on_one_two_and_four_gpus(tmp_path: Path) -> None:
    """Each item once, each worker sees one device, and nothing is held afterwards."""
    listed = items_file(*map(str, range(12)))
    outputs = []
    for gpus in ("1", "2", "4"):
        (meeting := tmp_path / gpus).mkdir()
        done = andon("map", "--gpus", gpus, "--items", listed, "--keep-order", "--",
                     PYTHON, "-c", MEET, str(meeting), gpus)  # fmt: skip
        assert done.code == 0, done.err
        rows = [row.split() for row in done.out.splitlines()]
        outputs.append([row[0] for row in rows])
        devices = {row[1] for row in rows}
        assert len(devices) == int(gpus)
        assert all(uuid.startswith("GPU-") and "," not in uuid for uuid in devices)
        assert "12 of 12 items done in" in done.err
    assert outputs == [[str(number) for number in range(12)]] * 3
    assert not held()
    found = records(tmp_path / "state")
    assert [one[0]["kind"] for one in found] == ["map"] * 3
    for record in found:
        states = [one["state"] for one in lines_of(record, "item")]
        assert (states.count("start"), states.count("ok"), len(states)) == (12, 12, 24)
        labels = {device["label"] for device in record[0]["devices"]}
        labels |= {one["device"]["label"] for one in lines_of(record, "joined")}
        assert {one["device"] for one in lines_of(record, "item")} <= labels
        assert record[-1]["state"] == "succeeded"
    assert len(found[-1][-1]["summary"]) == 4


def test_it_grows_when_a_gpu_becomes_free(node: StandIn, tmp_path: Path) -> None:
    """It begins with the one that is free; the record has both."""
    node.write(StandIn.devices(2))
    until = "import os, time\nwhile not os.path.exists('free'): time.sleep(0.01)"
    both = (
        "import os, pathlib, sys, time\n"
        "pathlib.Path(f'began{sys.argv[1]}').touch()\n"
        "while not (os.path.exists('began0') and os.path.exists('began1')): time.sleep(0.01)"
    )
    with running("run", "-d", "1", "--", PYTHON, "-c", until) as other:
        wait_for(lambda: len(held()) == 1, 60)
        with running("map", "--items", items_file("0", "1"), "--", PYTHON, "-c", both) as process:
            wait_for(Path("began0").exists, 60)
            Path("free").touch()
            assert end_of(other, 60).code == 0
            ended = end_of(process, 60)
    assert ended.code == 0, ended.err
    assert "2 items on GPU 0, up to 2" in ended.err
    assert "on GPU 0, 1" in ended.err.splitlines()[-1]
    [record] = [one for one in records(tmp_path / "state") if one[0]["kind"] == "map"]
    assert [one["device"]["label"] for one in lines_of(record, "joined")] == ["1"]
    assert [one["label"] for one in record[-1]["devices"]] == ["0", "1"]
    assert len(record[-1]["summary"]) == 2
    [row] = [one for one in andon("runs", "--json").json()["runs"] if one["kind"] == "map"]
    assert len(row["devices"]) == 2


def test_failed_items_are_tried_again_and_the_rest_goes_on(tmp_path: Path) -> None:
    listed = items_file("a", "bad", "c")
    code = "import sys; print('said', sys.argv[1]); sys.exit(sys.argv[1] == 'bad')"
    done = andon(
        "map", "--gpus", "1", "--items", listed, "--retries", "1", "--", PYTHON, "-c", code
    )
    assert done.code == 1
    assert "item bad: exit code 1; it is tried again" in done.err
    assert "2 of 3 items done" in done.err
    assert "1 failed" in done.err
    [record] = records(tmp_path / "state")
    bad = [one for one in lines_of(record, "item") if one["item"] == "bad"]
    assert [(one["state"], one["attempt"]) for one in bad] == [
        ("start", 1), ("retry", 1), ("start", 2), ("failed", 2),
    ]  # fmt: skip
    assert bad[-1]["output"] == "said bad\nexit code 1"
    assert record[-1]["message"] == "2 of 3 items succeeded, 1 failed"


def test_a_later_map_does_only_what_is_left() -> None:
    listed = items_file("a", "b", "c")
    command = ("--items", listed, "--cpu", "2", "--resume", "last", "--",
               PYTHON, "-c", EXISTS)  # fmt: skip
    first = (*command[:4], *command[6:])
    Path("a").touch()
    assert andon("map", *first).code == 1
    Path("b").touch()
    second = andon("map", *command)
    assert second.code == 1
    assert "1 of 2 items done" in second.err
    Path("c").touch()
    third = andon("map", *command)
    assert third.code == 0
    assert "1 item on 1 worker without a GPU" in third.err
    assert "nothing is left to do" in andon("map", *command).err
    other = andon("map", "--items", listed, "--cpu", "1", "--resume", "last", "--", "true")
    assert (other.code, "no earlier map had this command" in other.err) == (125, True)


def test_a_worker_stays_and_is_started_again_when_it_dies(tmp_path: Path) -> None:
    listed = items_file("a", "die", "b", "bad", "c")
    Path("worker.py").write_text(WORKER)
    done = andon("map", "--gpus", "1", "--items", listed, "--worker", "--retries", "1", "--",
                 PYTHON, "worker.py")  # fmt: skip
    assert done.code == 1
    assert "item die: the worker ended before it answered (exit code 3)" in done.err
    assert "item bad: bad item" in done.err
    assert "4 of 5 items done" in done.err
    assert done.out.count("working on") == 7


def test_an_item_that_takes_too_long_is_ended() -> None:
    listed = items_file("60")
    done = andon("map", "--cpu", "1", "--items", listed, "--item-timeout", "300ms", "--", "sleep")
    assert done.code == 1
    assert "(--item-timeout)" in done.err


def test_ctrl_c_lets_running_items_end_and_a_second_one_kills_them() -> None:
    listed = items_file("1", "2")
    code = "import pathlib, time; pathlib.Path('began').touch(); time.sleep(1000)"
    with running("map", "--gpus", "1", "--items", listed, "--", PYTHON, "-c", code) as process:
        wait_for(Path("began").exists, 60)
        process.send_signal(signal.SIGINT)
        stderr = process.stderr
        assert stderr is not None
        wait_for(lambda: "no further items" in stderr.readline(), 60)
        assert held()
        process.send_signal(signal.SIGINT)
        ended = end_of(process, 60)
    assert ended.code == 130
    assert "0 of 2 items done" in ended.err
    assert not held()


def test_sigterm_ends_workers_that_ignore_it_and_print_all_along(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ANDON_WORK_GRACE", "1s")
    flood = (
        "import pathlib, signal\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN); pathlib.Path('began').touch()\n"
        "while True: print('x', flush=True)"
    )
    command = (
        "--gpus",
        "1",
        "--items",
        items_file("1", "2"),
        "--worker",
        "--",
        PYTHON,
        "-c",
        flood,
    )
    with running("map", *command) as process:
        wait_for(Path("began").exists, 60)
        process.send_signal(signal.SIGTERM)
        ended = end_of(process, 60)
    assert (ended.code, "0 of 2 items done" in ended.err) == (143, True)
    assert not held()


def test_without_a_gpu_it_works_on_the_cpu_unless_one_was_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The kernel lists no card, and no driver answers; then it lists one whose driver fails."""
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "proc").symlink_to("/proc")
    monkeypatch.setenv("ANDON_ROOT", str(tmp_path / "root"))
    monkeypatch.setenv("ANDON_BACKENDS", "intel")
    listed = items_file("a", "b")
    done = andon("map", "--items", listed, "--keep-order", "--", "echo")
    assert (done.code, done.out) == (0, "a\nb\n")
    assert ": 1 worker on the CPU instead; --cpu N for N" in done.err
    for asked in (("--gpus", "1"), ("--memory", "1GiB")):
        refused = andon("map", *asked, "--items", listed, "--", "echo")
        assert (refused.code, refused.out) == (125, ""), asked
        assert "no GPU can be read" in refused.err, asked
    (tmp_path / "root" / "dev").mkdir()
    (tmp_path / "root" / "dev" / "nvidiactl").touch()
    assert andon("map", "--items", listed, "--", "echo").code == 125


def test_after_a_kill_the_item_ends_with_its_lock_and_the_next_map_goes_on(tmp_path: Path) -> None:
    listed = items_file("1")
    code = (
        "import os, pathlib, time\n"
        "pathlib.Path('began').write_text(str(os.getpid()))\n"
        "while not os.path.exists('go'): time.sleep(0.01)\n"
        "pathlib.Path('done').touch()"
    )
    command = ("--gpus", "1", "--items", listed, "--", PYTHON, "-c", code)
    with running("map", *command) as process:
        wait_for(lambda: Path("began").exists() and Path("began").read_text() != "", 60)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert len(held()) == 1, "the item that runs keeps its device"
        Path("go").touch()
        wait_for(Path("done").exists, 60)
        wait_for(lambda: not held(), 60)
    again = andon("map", "--resume", "last", *command)
    assert (again.code, "1 of 1 items done" in again.err) == (0, True)
    marks = [
        [item.get("begun_before") for item in lines_of(record, "item")]
        for record in records(tmp_path / "state")
    ]
    assert sorted(marks, key=len) == [[None], [True, True]]
    assert "(begun before, by a map that was killed)" in andon("runs", "tail", "last").out
    assert "1 item had begun before" in again.err


def test_release_of_one_lease_ends_one_worker_and_another_does_its_item(tmp_path: Path) -> None:
    listed = items_file("0", "1")
    code = (
        "import os, pathlib, sys, time\n"
        "pathlib.Path(f'began{sys.argv[1]}-{os.environ[\"ANDON_LEASE\"]}').touch()\n"
        "while not os.path.exists('go'): time.sleep(0.01)"
    )
    with running("map", "--gpus", "2", "--items", listed, "--", PYTHON, "-c", code) as process:
        wait_for(lambda: len(list(tmp_path.glob("began*"))) == 2, 60)
        first = next(tmp_path.glob("began0-*")).name.split("-")[1]
        assert andon("release", first).code == 0
        Path("go").touch()
        ended = end_of(process, 60)
    assert ended.code == 0, ended.err
    assert "its item is left to the others" in ended.err
    assert "2 of 2 items done" in ended.err


def test_nonsense_is_refused_in_one_line() -> None:
    listed = items_file("a")
    rows = {
        ("--", "true"): "there are no items",
        ("--files", "*.nothing", "--", "true"): "no file matches '*.nothing'",
        ("--items", "missing.txt", "--", "true"): "missing.txt: No such file or directory",
        ("--items", listed, "--redo", "all", "--", "true"): "--redo needs --resume",
        ("--items", listed, "--", "no-such-program"): "no-such-program: command not found",
        ("--items", listed, "--gpus", "0", "--", "true"): "'0' is not a whole number",
        ("--items", listed, "--gpus-per-worker", "9", "--", "true"): "9 GPUs requested",
        ("--items", listed, "--per-gpu", "2", "--", "true"): "need to share its memory",
        ("--items", listed, "--worker", "--per-call", "2", "--", "true"): "one item at a time",
        ("--items", listed, "--per-call", "2", "--", "x{item}"): "several items",
        ("--items", listed, "--resume", "zzzz", "--", "true"): "there is no run 'zzzz'",
        (
            "--items",
            listed,
            "--scaling",
            "2,2",
            "--",
            "true",
        ): "give each number of workers only once",
        ("--items", listed, "--scaling", "1,64", "--", "true"): "keep 64 workers busy",
        ("--items", listed, "--mount", "x", "--", "true"): "--mount needs --image",
    }
    wrong = {}
    for arguments, words in rows.items():
        done = subprocess.run(
            [PYTHON, "-m", "andon.cli", "map", *arguments], stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        if done.returncode != 125 or words not in done.stderr or "Traceback" in done.stderr:
            wrong[arguments] = (done.returncode, done.stderr)
    assert not wrong
    assert not Book(make=False).entries()


def test_scaling_compares_numbers_of_workers() -> None:
    listed = items_file(*map(str, range(8)))
    done = andon("map", "--items", listed, "--scaling", "1,2", "--", "true", timeout_seconds=60)
    assert done.code == 0, done.err
    header, first, second = done.out.splitlines()[:3]
    assert header.split()[:3] == ["WORKERS", "ITEMS/S", "EFFICIENCY"]
    assert (first.split()[0], second.split()[0]) == ("1", "2")
    assert first.split()[2:4] == ["100", "%"]


def test_json_items_name_their_fields() -> None:
    Path("items.jsonl").write_text('{"id": 1, "path": "x"}\n{"id": 2, "path": "y"}\n')
    done = andon("map", "--cpu", "1", "--items", "items.jsonl", "--jsonl", "--", "echo",
                 "{id}={path}")  # fmt: skip
    assert done.out == "1=x\n2=y\n"


def test_several_workers_share_a_gpu() -> None:
    listed = items_file(*"abcd")
    done = andon("map", "--gpus", "1", "--per-gpu", "2", "--shared", "--memory", "1GiB",
                 "--items", listed, "--", PYTHON, "-c", SHOW)  # fmt: skip
    assert done.code == 0, done.err
    assert len({row.split()[1] for row in done.out.splitlines()}) == 1
    assert "(2 workers)" in done.err


def test_a_record_of_a_map_can_be_read_back() -> None:
    assert (
        andon("map", "--gpus", "2", "--items", items_file("alpha", "beta"), "--", "true").code == 0
    )
    [row] = andon("runs", "--json").json()["runs"]
    assert (row["kind"], row["state"], len(row["devices"])) == ("map", "succeeded", 2)
    tail = andon("runs", "tail", "last")
    assert tail.code == 0
    assert 'item no. 0 "alpha" done on GPU' in tail.out
    assert 'item no. 1 "beta" done on GPU' in tail.out
