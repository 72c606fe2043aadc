"""What a dispatcher could not read again is refused when it is submitted."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from andon.errors import Invalid
from andon.jobs.file import specs_of
from andon.jobs.rules.file_keys import FileJob
from andon.jobs.submitting import local_spec
from andon.model.codec import read
from andon.model.job import facts
from andon.model.job.device_request import DeviceRequest
from andon.standalone.quick_parts import dumps_within

ONE = DeviceRequest(1, 1)


def submitted(argv: tuple[str, ...] = ("true",), **more: Any) -> None:
    local_spec(argv, replace(ONE, **more.pop("request", {})), git=False, **more)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"name": "a\udcffb"}, "name is"),
        ({"tags": ("x" * 600,)}, "tags.0. has 600 characters"),
        ({"tags": tuple(map(str, range(200)))}, "tags has 200 items, more than 100"),
        ({"environment": {"CUDA_VISIBLE_DEVICES": "\udcff"}}, "masks.CUDA_VISIBLE_DEVICES"),
        ({"environment": {"ANDON_SIMULATE_SCENARIO": "x" * 600}}, "scenario has 600"),
        (
            {"environment": {f"V{n}": "" for n in range(17_000)}},
            "environment has 17000 items, more than 16384",
        ),
        ({"environment": {"BIG": "\udcff" * 1_000_000}}, "too large: .* bytes as JSON"),
        ({"argv": ("true",) * 70_000}, "argv has 70000 items, more than 65536"),
        ({"request": {"models": ("\udcff",)}}, "request.models"),
    ],
)
def test_what_could_not_be_read_again_is_refused_with_the_reason(
    given: dict[str, Any], says: str
) -> None:
    with pytest.raises(Invalid, match=says) as caught:
        submitted(**given)
    assert caught.value.hint


@pytest.mark.process
def test_a_variable_without_a_name_is_left_out() -> None:
    spec = local_spec(("true",), ONE, git=False, environment={"": "odd", "A": "1"})
    assert dict(spec.environment) == {"A": "1"}
    asked = "from andon.jobs.git_commit import GitCommitLookup as G; G().answer()"
    odd = {**os.environ, "": "odd"}
    subprocess.run([sys.executable, "-c", asked], env=odd, check=True)


SECRETS = ("ANDON_TOKEN", "ANDON_HUB_TOKEN", "BENCHMARK_API_KEY")


@pytest.mark.process  # git
def test_tokens_of_andon_stay_with_the_submitter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in SECRETS:
        monkeypatch.setenv(name, "hush")
    monkeypatch.setenv("OTHER", "mine")
    spec = local_spec(("true",), ONE, git=False)
    job = FileJob(command=("true",), environment={"BENCHMARK_API_KEY": "meant"})
    (of_file,) = specs_of(job, tmp_path)
    assert "hush" not in {*spec.environment.values(), *of_file.environment.values()}
    assert spec.environment["OTHER"] == "mine"
    assert of_file.environment["BENCHMARK_API_KEY"] == "meant", "what a job file names is given"


def test_the_folder_of_nobody_is_refused(tmp_path: Path) -> None:
    job = FileJob(command=("true",), folder="~no-such-user/x", request=ONE)
    with pytest.raises(Invalid, match="is not a folder"):
        specs_of(job, tmp_path)


@pytest.mark.parametrize("letter", ["é", "\U0001f600", "x"])
def test_the_end_fits_into_its_space_and_can_be_read(letter: str) -> None:
    said = {"reason": "not_started", "started": 1.0, "ended": 2.0, "seconds": 1.0, "exit_code": 127}
    line = dumps_within({**said, "message": letter * 4000, "by": "ada"}, "message", 4096)
    assert len(line) <= 4096
    end = read(facts.AttemptEnd, facts.loads(line))
    assert end.message is not None
    assert end.message.startswith(letter * 100)
