"""Figures that jobs print: patterns, the reader of an output, and rules that stop a job."""

from pathlib import Path

import pytest

from andon.errors import Invalid
from andon.jobs.metrics import MetricReader, refuse_slow, within
from andon.jobs.rules.metrics import compiled, found_in, parse_metric, parse_stop
from andon.model.job.device_request import DeviceRequest
from andon.model.job.spec import JobSpec
from andon.model.run.record import RunEvent, RunLogged


def found(metric: str, *lines: str) -> list[dict[str, float]]:
    name, pattern = parse_metric(metric)
    return found_in(lines, {name: compiled(name, pattern)})


def test_a_pattern_of_a_group_alone_follows_its_name() -> None:
    lines = ("step 3 loss=0.5 t=2", "val_loss=7", "loss: 0.4", "loss 0.3 then loss=0.2", "none")
    assert found(r"loss=([\d.]+)", *lines) == [{"loss": 0.5}, {"loss": 0.4}, {"loss": 0.2}]
    assert found(r"loss=val_loss=(\d+)", *lines) == [{"loss": 7.0}]
    assert found(r"loss=([\w.]+)", "loss=..", "loss=nan")[0]["loss"] != 0  # a value, not 0


@pytest.mark.parametrize(
    "text", ["loss", "=(a)", "a b=(c)", "loss=(", "loss=abc", "x=(a{9999999999})"]
)
def test_what_is_not_a_metric_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        parse_metric(text)


@pytest.mark.slow
def test_a_pattern_without_end_is_refused_and_interrupted() -> None:
    with pytest.raises(Invalid, match="too long"):
        refuse_slow(dict([parse_metric("x=((a+)+)$")]))
    refuse_slow(dict([parse_metric(r"loss=([\d.]+)")]))
    assert within(5.0, lambda: 3) == 3


def test_stop_rules_name_a_figure_a_limit_and_a_time() -> None:
    rule = parse_stop("loss>2 after 10m")
    assert not rule.met_by(3.0, 599.0)
    assert rule.met_by(3.0, 600.0)
    assert not rule.met_by(2.0, 600.0)
    assert rule.met_by(float("nan"), 600.0)
    assert rule.reason(3.0) == "cancelled: loss is 3, > 2 after 10 min"
    assert parse_stop("acc <= 0.5").met_by(0.5, 0.0)
    for wrong in ("", "loss", "loss>", "loss>nan", "loss>2 after", "loss>2 after x", "1>2"):
        with pytest.raises(Invalid):
            parse_stop(wrong)


def spec(**more: object) -> JobSpec:
    fields: dict[str, object] = {"metrics": dict([parse_metric(r"loss=([\d.]+)")]), **more}
    return JobSpec(1, "train", ("true",), "/", DeviceRequest(), 1.0, **fields)  # type: ignore[arg-type]


def test_a_reader_reads_whole_lines_once_also_after_another_one(tmp_path: Path) -> None:
    output = tmp_path / "output.log"
    output.write_text("loss=3\nloss=2\nlos")
    reader = MetricReader(spec(), output, None)
    assert [line.values for line in reader.read() if isinstance(line, RunLogged)] == [
        {"loss": 3.0},
        {"loss": 2.0},
    ]
    reader.settle()
    with output.open("a") as file:
        file.write("s=1\nloss=0.5")
    later = MetricReader(spec(stop_when="loss<0.7"), output, None)
    assert [line.values for line in later.read() if isinstance(line, RunLogged)] == [{"loss": 1.0}]
    assert later.hopeless(1.0) is None
    (line,) = later.read(last=True)
    assert isinstance(line, RunLogged)
    assert line.values == {"loss": 0.5}
    assert later.hopeless(1.0) == "cancelled: loss is 0.5, < 0.7"
    assert later.read(last=True) == []


@pytest.mark.slow
def test_a_reader_gives_up_a_pattern_that_takes_too_long(tmp_path: Path) -> None:
    output = tmp_path / "output.log"
    output.write_text("x=" + "a" * 3000 + "!\n")
    reader = MetricReader(spec(metrics=dict([parse_metric("x=((a+)+)$")])), output, None)
    (line,) = reader.read()
    assert isinstance(line, RunEvent)
    assert reader.read() == []
