"""Progress of a program from the end of its output: forms that are met, and nonsense."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andon.jobs.outputs import output_progress
from andon.model.job.progress import WorkProgress
from andon.model.run.record import RunLogged
from andon.runs.rules.progress import (
    TAIL_BYTES,
    OutputProgress,
    logged_progress,
    progress_in,
    work_progress,
)
from andon.work.tap import PrintedProgress
from tests.support.rows import rows


def told(text: str) -> tuple[object, ...] | None:
    found = progress_in(text)
    if found is None:
        return None
    return found.step, found.total, found.label, found.epoch, found.epochs, found.bar_seconds


@rows("text, expected", [
    (" 45%|####5     | 450/1000 [01:23<01:41,  5.40it/s]", (450, 1000, "", None, None, 83.0)),
    ("train: 45%|████▌     | 450/1000 [1:01:23<1:14:41, 8.18s/it, loss=0.31]",
     (450, 1000, "train", None, None, 3683.0)),
    (" 44%|#| 440/1000 [01:20<01:41, 5.4it/s]\r 45%|#| 450/1000 [01:23<01:41, 5.4it/s]",
     (450, 1000, "", None, None, 83.0)),
    ("\x1b[A\x1b[2K 45%|\x1b[34m██\x1b[0m  | 450/1000 [01:23<01:41, 5.4it/s]\x1b[0m",
     (450, 1000, "", None, None, 83.0)),
    ("  0%|          | 0/1000 [00:00<?, ?it/s]", (0, 1000, "", None, None, 0.0)),
    ("data:  50%|█████     | 1.25k/2.50k [00:10<00:10, 125it/s]",
     (1250, 2500, "data", None, None, 10.0)),
    ("Loading checkpoint shards: 100%|██████████| 4/4 [00:05<00:00,  1.3s/it]",
     (4, 4, "Loading checkpoint shards", None, None, 5.0)),
    (" 45%|█| 450/1000 [01:23<01:41,  5.40it/s]\n{'loss': 0.5, 'epoch': 1.35}\n",
     (450, 1000, "", None, None, 83.0)),  # Hugging Face
    ("Epoch 3:  45%|████▌     | 450/1000 [01:23<01:41,  5.40it/s, v_num=0]",
     (450, 1000, "Epoch 3", None, None, 83.0)),  # Lightning
    ("Epoch 3/9  ━━━━╸━━━━━━━━ 450/1000 0:01:23 • 0:01:41 5.40it/s v_num: 0.000",
     (450, 1000, "", 3, 9, None)),  # Lightning with rich
    ("Epoch 3/10\n\x1b[1m 12/100\x1b[0m \x1b[32m━━\x1b[0m\x1b[37m━━━\x1b[0m \x1b[1m3s\x1b[0m 20ms",
     (12, 100, "", 3, 10, None)),  # Keras 3
    ("Epoch 3/10\n 12/100 [==>...........] - ETA: 3s - loss: 0.51", (12, 100, "", 3, 10, None)),
    ("Epoch 3/10", (0, 0, "epoch", 3, 10, None)),
    ("epoch 3 of 10: loss 0.31", (0, 0, "epoch", 3, 10, None)),
    ("[Epoch 3/10] loss 0.31\nsaving", (0, 0, "epoch", 3, 10, None)),
    ("step 1200/5000 loss 0.3", (1200, 5000, "step", None, None, None)),
    ("2026-11-15 03:00:00 INFO Step: 1200 / 5000", (1200, 5000, "step", None, None, None)),
    ("iter 100/600", (100, 600, "iter", None, None, None)),
    (" iteration      100/  500000 | consumed samples: 3200 |",
     (100, 500_000, "iteration", None, None, None)),  # Megatron
    ("Epoch [3/10], Step [450/1000], Loss: 0.3", (450, 1000, "step", 3, 10, None)),
    ("Epoch: [3][ 450/1000]\tTime 0.1", (450, 1000, "", None, None, None)),
    ("Train Epoch: 3 [12800/60000 (21%)]\tLoss: 0.3", (12_800, 60_000, "", None, None, None)),
    ("epoch 003:    450 / 1000 loss=4.2", (450, 1000, "", None, None, None)),  # fairseq
    ("batch 5 of 10", (5, 10, "batch", None, None, None)),
])  # fmt: skip
def test_forms_of_progress(text: str, expected: tuple[object, ...]) -> None:
    assert told(text) == expected


@rows("text", [
    "", "\n\r\n", "loss 0.3", "iter 100: loss 2.1", "12/31/2026 03:00", "GPU 1/4", "step 7/0",
    "step 9/5", "step 99999999999999999999/999999999999999999999", "epoch 0/0", "epoch 5/3",
    " 45%|#####", "45%|###| 450/ [01:23<", "100%|", "a/b", "step one/two", "http://step/3/4",
    "\x1b]0;45%|#| 1/2 [00:01<00:01\x07", "footstep 3/4 steps", "1/2", "3/4 cup",
])  # fmt: skip
def test_what_is_no_progress(text: str) -> None:
    assert progress_in(text) is None


def test_a_label_can_be_shown() -> None:
    found = progress_in("\x07x" * 60 + ": 45%|#| 450/1000 [01:23<01:41, 5.4it/s]")
    assert found is not None
    assert (len(found.label), found.label.isprintable()) == (40, True)


@rows("told, started, at, end, rate", [
    (OutputProgress(450, 1000, bar_seconds=90.0), 0.0, 500.0, 610.0, 5.0),
    (OutputProgress(450, 1000, bar_seconds=90.0), None, 500.0, 610.0, 5.0),
    (OutputProgress(250, 1000), 100.0, 200.0, 500.0, 2.5),
    (OutputProgress(250, 1000), None, 200.0, None, None),
    (OutputProgress(0, 1000), 100.0, 200.0, None, 0.0),
    (OutputProgress(1000, 1000), 100.0, 200.0, 200.0, 10.0),
    (OutputProgress(50, 100, epoch=3, epochs=10), 100.0, 350.0, 1100.0, None),
    (OutputProgress(50, 100, "", 3, 10, 20.0), 100.0, 350.0, 1100.0, 2.5),
    (OutputProgress(0, 0, "epoch", 3, 10), 100.0, 350.0, 1100.0, None),
    (OutputProgress(50, 100, within=True), 100.0, 350.0, None, None),  # of how many epochs?
    (OutputProgress(50, 100, "", 3, 10, within=True), 100.0, 350.0, 1100.0, None),
    (OutputProgress(250, 1000), 300.0, 200.0, None, None),  # the clock was set back
])  # fmt: skip
def test_the_end_follows_from_the_steps_and_their_time(
    told: OutputProgress, started: float | None, at: float, end: float | None, rate: float | None
) -> None:
    found = work_progress(told, started, at)
    assert found.expected_end == pytest.approx(end)
    assert found.rate == pytest.approx(rate)


@rows("progress, now, words", [
    (WorkProgress(450, 1000, "", 5.0, 610.0), 500.0, "450/1000 (45 %), 1 min 50 s left"),
    (WorkProgress(50, 100, "epoch 3/10", None, 1100.0), 350.0,
     "50/100 (50 %), epoch 3/10, 13 min left"),
    (WorkProgress(450, 1000, "", 5.0, 610.0), 700.0, "450/1000 (45 %)"),  # it stands still
    (WorkProgress(999, 1000, "step"), 0.0, "999/1000 (99 %), step"),
    (WorkProgress(4, 4, "Loading", 1.0, 610.0), 500.0, "4/4 (100 %), Loading"),
])  # fmt: skip
def test_progress_in_words(progress: WorkProgress, now: float, words: str) -> None:
    assert progress.text(now) == words


@rows("lines, expected", [
    ([(10.0, 100, 1000), (20.0, 150, 1000)], WorkProgress(150, 1000, "step", 5.0, 190.0)),
    ([(10.0, 100, 1000)], WorkProgress(100, 1000, "step")),
    ([(10.0, 100, None), (20.0, 150, None)], None),
    ([(10.0, None, 1000)], None),
    ([(10.0, 100, 1000), (20.0, 100, 1000)], WorkProgress(100, 1000, "step")),
    ([(20.0, 100, 1000), (10.0, 150, 1000)], WorkProgress(150, 1000, "step")),
    ([(10.0, 7, 5)], None),
    ([(10.0, 0, 0)], None),
    ([(10.0, 1, 1e300)], None),
    ([], None),
])  # fmt: skip
def test_steps_that_a_run_logs(
    lines: list[tuple[float, float | None, float | None]], expected: WorkProgress | None
) -> None:
    logged = [
        RunLogged(at, {"loss": 0.5} | ({} if total is None else {"total_steps": total}), step)
        for at, step, total in lines
    ]
    assert logged_progress(logged) == expected


def test_of_an_output_only_the_end_is_read_and_only_a_file(tmp_path: Path) -> None:
    output = tmp_path / "output.log"
    assert output_progress(output, 0.0) is None
    output.write_bytes(b"step 1/9\n" + b"\xff\x00 \n" * TAIL_BYTES)
    assert output_progress(output, 0.0) is None
    with output.open("ab") as file:
        file.write(b"\xe2\x94step 300/1200\n")
    os.utime(output, (400.0, 400.0))
    assert output_progress(output, 100.0) == WorkProgress(300, 1200, "step", 1.0, 1300.0)
    os.mkfifo(tmp_path / "fifo")
    assert output_progress(tmp_path / "fifo", 0.0) is None


pieces = st.sampled_from([
    "45%|", "#", "|", " ", "450/1000", "[01:23<01:41", "]", "\r", "\n", "epoch", "step", ":", "[",
    "9" * 30, "━", "\x1b[", "\x1b]", "m", "0/0", "5/3", "1.5k/3k", "of",
])  # fmt: skip


def test_a_command_is_as_far_as_its_error_output_says() -> None:
    """What was read before is not parsed again; what tells nothing ends what was known."""
    told = {"part": ("", 0.0)}
    progress = PrintedProgress(began=1000.0)
    assert progress() is None, "nothing is followed yet"
    progress.follow(lambda: told["part"])
    assert progress() is None
    told["part"] = "step 20/100", 1010.0
    first = progress()
    assert first == WorkProgress(20, 100, "step", 2.0, 1050.0)
    assert progress() is first
    told["part"] = "", 1011.0  # it was being written
    assert progress() is first
    told["part"] = "saving the model", 1012.0
    assert progress() is None


@given(st.lists(pieces, max_size=60).map("".join) | st.text(max_size=200))
def test_any_output_is_read(text: str) -> None:
    found = progress_in(text)
    if found is not None:
        shown = work_progress(found, 0.0, 10.0)
        assert 0 <= shown.step <= shown.total
        assert shown.expected_end is None or shown.expected_end >= 10.0
        assert shown.text(10.0).isprintable()


@rows(
    "piece", ["45%|", "epoch ", "step [[[[", "\x1b]", "━ 1/", "9", "1:", "\r", "a: ", "epoch 1:  "]
)
def test_hostile_output_tells_nothing(piece: str) -> None:
    """A pattern that tries every way would not come back from this."""
    assert progress_in(piece * TAIL_BYTES) is None
