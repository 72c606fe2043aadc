"""The parameters of a sweep: values, combinations, refusals, and what each job needs."""

import json
from pathlib import Path

import pytest

from andon.api.server_trial import contained_command
from andon.errors import Invalid
from andon.jobs.file import read_job_file, specs_of
from andon.jobs.rules.file import jobs_in
from andon.jobs.rules.metrics import parse_metric
from andon.jobs.rules.parameters import (
    Axes,
    Parameters,
    check_use,
    combinations,
    command_of,
    fitted,
    parse_parameter,
    refuse_many,
)
from andon.model.job.device_request import DeviceRequest
from andon.units import MIB


def read(path: str) -> str:
    return {"values": "a b\n\nc,d\r\n", "empty": "\n"}[path]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("lr=0.1,0.01", (0.1, 0.01)),
        ("lr=1e-3,1e-4", ("1e-3", "1e-4")),  # the command gets what was typed
        ("seed=1..5", (1, 2, 3, 4, 5)),
        ("seed=-1..1", (-1, 0, 1)),
        ("lr=0.1..1.0/4", (0.1, 0.4, 0.7, 1)),
        ("prompt=@values", ("a b", "c,d")),
        ("name=1..x,y", ("1..x", "y")),
    ],
)
def test_values_are_lists_ranges_or_the_lines_of_a_file(
    text: str, values: tuple[object, ...]
) -> None:
    assert parse_parameter(text, read)[1] == values


@pytest.mark.parametrize(
    "text",
    [
        "lr", "=1", "a b=1", "lr=", "lr=1,,2", "lr=1,1", "seed=5..1", "lr=0.1..0.5",
        "lr=0.1..0.5/1", "lr=0.1..1.0/-3", "lr=0..1/x", "lr=nan..1/3", "lr=0..INF",
        "p=@empty", "lr=..5", f"x={'a' * 201}", "x=a\x1b[2J", "seed=1..20000",
    ],
)  # fmt: skip
def test_what_is_not_a_parameter_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        parse_parameter(text, read)


def test_a_mistake_in_a_pattern_is_named_by_its_place_in_what_was_typed() -> None:
    with pytest.raises(Invalid, match="at position 1"):
        parse_metric("loss=([")


def test_combinations_are_a_grid_or_pairs_or_a_sample() -> None:
    axes: Axes = {"a": (1, 2), "b": ("x", "y")}
    grid = combinations(axes)
    assert grid == [{"a": a, "b": b} for a in (1, 2) for b in ("x", "y")]
    assert combinations(axes, pairs=True) == [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]
    some = combinations(axes, sample=2, seed=1)
    assert len(some) == 2
    assert all(one in grid for one in some)
    assert some == combinations(axes, sample=2, seed=1)
    assert len({str(combinations(axes, sample=2, seed=seed)) for seed in range(20)}) > 1
    assert combinations({}) == [{}]
    with pytest.raises(Invalid, match="as many values"):
        combinations({"a": (1, 2), "b": (1,)}, pairs=True)
    with pytest.raises(Invalid, match="combinations"):
        combinations({"a": range(200), "b": range(200)})


def test_unknown_and_unused_names_are_refused() -> None:
    check_use(["lr"], ["train", "--lr", "{lr}", "${HOME}"])
    with pytest.raises(Invalid, match=r"\{a\} in the command"):
        check_use(["lr"], ["train", "{lr}", "{a}"])
    with pytest.raises(Invalid, match="nothing uses the parameter seed"):
        check_use(["lr", "seed"], ["train", "{lr}"])
    check_use(["lr"], ["train", "{lr}", "{port}"], also=["port"])


def test_values_reach_the_command_as_they_are() -> None:
    values: Parameters = {"a": "x y; 'z'", "tp-size": 2, "flag": True}
    words = command_of(["run", "{a}", "-t{tp-size}", "{flag}", "{b}"], values)
    assert words == ("run", "x y; 'z'", "-t2", "true", "{b}")


def test_a_value_in_the_shell_text_of_a_file_is_a_word_behind_it(tmp_path: Path) -> None:
    file = {"command": 'echo "got {x}" {n}', "parameters": {"x": ["$(touch HIT)"], "n": [1]}}
    (tmp_path / "job.json").write_text(json.dumps(file))
    (job,) = read_job_file(str(tmp_path / "job.json"))
    text = 'andon_1=${1}; shift 1; echo "got ${andon_1}" 1'
    assert job.each[0].command == ("/bin/sh", "-c", text, "/bin/sh", "$(touch HIT)")


def test_a_parameter_that_only_the_shell_would_see_is_not_used() -> None:
    with pytest.raises(Invalid, match="nothing uses the parameter lr"):
        check_use(["lr"], ["/bin/sh", "-c", "train --lr ${lr}"])


def test_an_option_of_the_estimator_changes_the_gpus_and_the_memory() -> None:
    plain = DeviceRequest()
    assert fitted(plain, ["train"], {"lr": 0.1}) == plain
    assert fitted(plain, ["train", "--tp", "4"], {"tp": 4}).least == 4
    assert fitted(plain, ["train"], {"tp_size": 2, "pp": 2}).most == 4
    server = ["vllm", "serve", "llama-70b", "--tensor-parallel-size", "2"]
    found = fitted(plain, server, {"tensor-parallel-size": 2})
    assert (found.least, found.memory_bytes) == (2, 20000 * MIB)
    kept = fitted(plain, server, {"tensor-parallel-size": 2}, gpus=False, memory=False)
    assert kept == plain


def test_many_jobs_need_an_agreement() -> None:
    refuse_many(1000, agreed=False)
    refuse_many(1001, agreed=True)
    with pytest.raises(Invalid, match="1,001 jobs"):
        refuse_many(1001, agreed=False)


def test_parameters_of_a_job_file_make_a_group() -> None:
    document = {
        "name": "tune",
        "command": ["train", "--lr", "{lr}", "--tp", "{tp}"],
        "parameters": {"lr": [0.1, 0.01], "tp": [1, 2]},
        "metrics": {"loss": r"([\d.]+)"},
        "stop_when": "loss>2 after 10m",
    }
    (job,) = jobs_in(document, "job.toml", {})
    assert job.spec.group == "tune"
    assert [one.command[2] for one in job.each] == ["0.1", "0.1", "0.01", "0.01"]
    assert [one.request.least for one in job.each] == [1, 2, 1, 2]
    assert job.each[0].params == {"lr": 0.1, "tp": 1}
    assert "loss" in job.spec.metrics


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"parameters": {"lr": []}}, "neither a value"),
        ({"parameters": {"lr": [1], "x": [1]}}, "nothing uses the parameter x"),
        ({"parameters": {"lr": [1]}, "array": "0-3"}, "cannot be combined"),
        ({"parameters": {"lr": [float("nan")]}}, "not finite"),
        ({"parameters": [1]}, "not a table"),
        ({"metrics": {"loss": "("}}, "not a regular expression"),
        ({"stop_when": "loss"}, "does not say when"),
        ({"sample": 0}, "not a whole number"),
    ],
)
def test_mistakes_in_parameters_of_a_file_are_named(more: dict[str, object], words: str) -> None:
    with pytest.raises(Invalid, match=words):
        jobs_in({"command": ["train", "{lr}"], "parameters": {"lr": [1]}} | more, "job.toml", {})


@pytest.mark.process
def test_a_server_may_be_an_image_alone(tmp_path: Path) -> None:
    path = tmp_path / "serve.json"
    load = {"model": "m", "rate": 1, "seconds": 1}
    path.write_text(json.dumps({"server": {"image": "org/server"}, "load": [load]}))
    (job,) = read_job_file(str(path))
    assert job.server is not None
    assert job.server.image == "org/server"
    (spec,) = specs_of(job, tmp_path)
    assert "org/server" in spec.argv[-1]
    words = contained_command("org/server", "l1", (), 8001, ["--port", "8001"])
    assert words[-2:] == ["--port", "8001"]
    task = json.loads(words[-3])
    assert (task["environment"], task["container"]["options"]) == (
        {"PORT": "8001"}, ["--network=host"],
    )  # fmt: skip
