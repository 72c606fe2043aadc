"""The records of jobs: continued after a kill, never two in one file, and nothing stays open."""

import json
import threading
from pathlib import Path

from andon.jobs.record import finish
from andon.model.device import Snapshot
from andon.model.job.facts import AttemptEnd, EndReason
from andon.model.run.record import RunDevice, RunEnd, RunJoined, RunLine, RunLogged, RunState
from andon.model.run.wire import line_to_text
from andon.runs.files import RecordFile
from andon.runs.opening import RunRecording
from andon.runs.record import RunOutcome
from tests.support.disks import file_limit
from tests.support.run_parts import BEGAN, begin, device, sample
from tests.support.sharing_parts import gpu
from tests.support.web_parts import Hand

ENDED = AttemptEnd(EndReason.EXITED, BEGAN, BEGAN + 9, 9.0, 0)
LATE = RunDevice("GPU-0", 0, "0", "H200")
DONE = RunEnd(BEGAN + 9, RunState.SUCCEEDED, 9.0, 1, {})


def written(path: Path, *lines: str) -> Path:
    path.write_text("".join(lines))
    return path


def events(path: Path) -> list[str]:
    """Of the lines that can be read."""
    found = []
    for line in path.read_text().splitlines():
        try:
            found.append(json.loads(line)["event"])
        except ValueError:
            found.append("?")
    return found


def test_a_record_that_was_cut_in_a_line_gets_its_end(tmp_path: Path) -> None:
    half = line_to_text(sample(2.0, {}))[:20]
    path = written(tmp_path / "r", line_to_text(begin()), line_to_text(sample(1.0, {})), half)
    recorder = RunRecording().resume(path)
    assert recorder is not None
    assert recorder.tallies.samples == 1
    assert finish(recorder, ENDED, "").state is RunState.SUCCEEDED
    assert events(path) == ["begin", "sample", "?", "end"]


def test_what_was_logged_and_who_joined_before_a_kill_counts(tmp_path: Path) -> None:
    late = sample(2.0, {"utilization_percent": 70})
    logged, joined = RunLogged(BEGAN, {"loss": 2.0}), RunJoined(BEGAN + 1, LATE)
    lines: tuple[RunLine, ...] = (begin(), logged, joined, late)
    recorder = RunRecording().resume(written(tmp_path / "r", *map(line_to_text, lines)))
    assert recorder is not None
    end = recorder.end(RunOutcome(RunState.SUCCEEDED))
    assert end.last_values == {"loss": 2.0}
    assert end.summary["GPU-0"]["utilization_percent"]["max"] == 70


def test_an_end_behind_a_damaged_line_is_seen(tmp_path: Path) -> None:
    path = written(tmp_path / "r", line_to_text(begin()), "{}\n", line_to_text(DONE))
    assert RunRecording().resume(path) is None


def test_a_complete_record_is_not_held_open(tmp_path: Path) -> None:
    path = written(tmp_path / "r", line_to_text(begin()), line_to_text(DONE))
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        assert RunRecording().resume(path) is None
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_line_of_which_only_a_part_was_written_does_not_spoil_the_next(tmp_path: Path) -> None:
    file = RecordFile(tmp_path / "r")
    file.put("1\n")
    with file_limit(4):
        file.put("222\n")
    file.put("3\n")
    file.close()
    assert file.path.read_text() == "1\n22\n3\n"
    assert file.dropped == 1


def looked_for(write: object) -> threading.Thread:
    """Facts of which there are none."""
    thread = threading.Thread(target=lambda: None)
    thread.start()
    return thread


def test_a_record_is_continued_where_a_killed_dispatcher_left_it() -> None:
    busy = Snapshot("n", BEGAN + 1.0, devices=(gpu(0, busy=50),))
    how = RunRecording(Hand(busy), direct=True)
    recorder = how.open(begin(device(0)), looked_for)
    recorder.read_last()
    recorder.pause()
    again = how.resume(recorder.path)
    assert again is not None
    verdict = finish(again, ENDED, "", 7)
    assert (verdict.state, verdict.free_bytes) == (RunState.SUCCEEDED, 7)
    told = events(recorder.path)
    assert (told[0], told[-1], set(told[1:-1])) == ("begin", "end", {"sample"})
    assert how.resume(recorder.path) is None


def test_a_job_that_did_not_start_has_no_record() -> None:
    recorder = RunRecording(direct=True).open(begin(), looked_for)
    recorder.discard()
    assert not recorder.path.exists()
