"""`andon run --nsys`: the profiler around the command, its file in the record, its refusals."""

from pathlib import Path

import pytest

from andon.cli import nsys
from andon.errors import Denied
from tests.integration.conftest import andon
from tests.integration.leasing import records
from tests.support.replaced import answers

NSYS = """#!/bin/sh
[ "$1" = profile ] || exit 99
shift
while case $1 in --*) true ;; *) false ;; esac; do
    case $1 in --output=*) echo "$@" >"${1#--output=}" ;; esac
    shift
done
"$@"
"""


def test_the_record_names_the_report_and_the_exit_code_is_the_commands(
    own_places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = own_places / "bin/nsys"
    program.parent.mkdir()
    program.write_text(NSYS)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    words = ("--nsys", "--nsys-option=--trace=cuda", "--", "sh", "-c", "exit 7")
    done = andon("run", "--simulate", "2", *words)
    assert done.code == 7, done.err
    (record,) = records(own_places / "state")
    assert (record[0]["name"], record[-1]["exit_code"]) == ("sh", 7)
    report = Path(record[0]["params"]["nsys_report"])
    assert "--trace=cuda sh -c exit 7" in report.read_text()
    assert (report.parent, report.suffix) == (own_places / "state/andon/runs", ".nsys-rep")


def test_without_the_profiler_nothing_is_run(
    own_places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    done = andon("run", "--simulate", "2", "--nsys", "--", "echo", "ran")
    assert (done.code, done.out) == (125, "")
    assert "nsys is not installed" in done.err
    (own_places / "nsys").touch(0o755)
    monkeypatch.setenv("PATH", str(own_places), prepend=":")
    answers(monkeypatch, nsys, "may_profile", False)  # root of a container may not either
    answers(monkeypatch, nsys, "counters_restricted", True)
    with pytest.raises(Denied, match="profiling counters are for root only"):
        nsys.profiled(["echo"], (), own_places, "echo")
