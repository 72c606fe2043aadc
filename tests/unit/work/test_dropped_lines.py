"""Lines that a client adds to the error output are dropped, and nothing else waits for them."""

import pytest

from andon.clusters.slurm import SlurmCluster
from andon.work.dropped_lines import LONGEST_LINE, DroppedLines


@pytest.mark.parametrize(
    ("pieces", "shown"),
    [
        (["srun: error: n1: task 0: Exited with exit code 7\n"], [""]),
        (["srun: error: n1: tasks 0-1: Killed\nmine\n"], ["mine\n"]),
        (["srun: error: Unable to allocate resources: Invalid partition\n"], None),
        (["slurmstepd-n1: error: *** STEP 7.0 ON n1 CANCELLED AT 1 ***\n"], [""]),
        (["50 %\r", "60 %\r", "done"], None),
        (["sr", "un: error: n1: task 0: Terminated", "\n"], ["", "", ""]),
        (["sr", "ound\n"], ["", "sround\n"]),
        (["a srun: error: n1: task 0: Killed\n"], None),
        (["srun: " + "x" * LONGEST_LINE], None),
    ],
)
def test_only_whole_lines_of_the_client_are_dropped(
    pieces: list[str], shown: list[str] | None
) -> None:
    lines = DroppedLines(SlurmCluster.own_lines)
    found = [lines.feed(piece.encode()).decode() for piece in pieces]
    assert found == (pieces if shown is None else shown)
    assert lines.rest() == b""


def test_what_is_held_back_is_shown_at_the_end() -> None:
    lines = DroppedLines(SlurmCluster.own_lines)
    assert lines.feed(b"srun: what") == b""
    assert lines.rest() == b"srun: what"
