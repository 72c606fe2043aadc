"""A job as a server shows it: what is written is read again, and nothing else is believed."""

import json

import pytest
from msgspec.structs import replace

from andon.model.codec import Wrong, read, to_json
from andon.model.job.facts import JobState, JobView
from andon.model.job.progress import WorkProgress

WAITING = JobView(3, "3", "train", JobState.WAITING, "python train.py", "/data", "alice", 1e9, "2")
RUNNING = replace(
    WAITING,
    label="12_3", state=JobState.RUNNING, reason="GPU 0 and 1", attempt=2, attempts=2,
    memory_bytes=1 << 30, priority=-5, for_seconds=60.0, begin_at=1e9, after=(1, 2), after_any=(4,),
    array=12, array_index=3, devices=("0", "1"), device_uuids=("GPU-a", "GPU-b"), lease="k7",
    run="r1", record="/data/r1.jsonl", pid=4711, started=1e9, seconds=5.0, exit_code=1, signal=9,
    waiting_details=("GPU 3 is held by bob until 12:00",), environment={"CUDA": "0"}, tags=("a",),
    progress=WorkProgress(450, 1000, "epoch 3/10", 5.0, 1e9),
)  # fmt: skip


def test_what_is_written_is_read_again() -> None:
    for view in (WAITING, RUNNING):
        assert read(JobView, json.loads(json.dumps(to_json(view)))) == view


@pytest.mark.parametrize(
    ("field", "value"),
    [("number", "3"), ("state", "asleep"), ("label", None), ("after", [0.5]), ("after", 1),
     ("started", "now"), ("waiting_details", [1]), ("pid", -1), ("devices", "0"),
     ("progress", 1), ("progress", {"step": 9, "total": 3})],
)  # fmt: skip
def test_a_field_that_is_wrong_is_named(field: str, value: object) -> None:
    with pytest.raises(Wrong, match=field):
        read(JobView, {**to_json(RUNNING), field: value})
