"""Reports as people read them: golden text, escaped HTML, honest gaps."""

import re
import time
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from andon.cli.show.reports.as_html import document_html
from andon.cli.show.reports.as_markdown import document_markdown
from andon.cli.show.reports.as_text import document_text, thinned
from andon.cli.show.reports.charts import (
    BOTTOM,
    HEIGHT,
    TOP,
    clock,
    line_chart,
    ticks,
    time_ticks,
)
from andon.cli.show.reports.document import ChartLine, Document, LineChart
from andon.cli.show.reports.figures import hours, rate, seconds_text, three
from andon.cli.show.reports.group_usage import (
    USAGE_DAYS,
    GroupUsage,
    group_document,
    usage_days,
    usage_json,
)
from andon.cli.show.reports.report_rows import DEVICES, report_json
from andon.cli.show.reports.run_comparison import comparison_document
from andon.cli.show.reports.run_report import run_document
from andon.cli.show.reports.sweep import run_charts
from andon.cli.show.text import painted
from andon.history.rules.usage import UserUsage
from andon.model.run.record import (
    OutOfMemory,
    RunAlert,
    RunDevice,
    RunEvent,
    RunLine,
    RunLogged,
    RunState,
)
from andon.model.wire import dumps
from andon.runs.rules.reports.advice import advice_on
from andon.runs.rules.reports.compare import ComparedRun, RunSide, compare
from andon.runs.rules.reports.report import Prices, RunReport
from andon.units import GIB
from tests.support.rows import rows
from tests.support.run_records import BEGAN, begin, end, sample
from tests.support.run_reports import report, report_on
from tests.support.run_stories import story
from tests.support.snapshots import assert_golden

HOSTILE = "<img src=x onerror=alert(1)>\"'&\u202e\x1b[2J|`*[a](javascript:b)"


@pytest.fixture(autouse=True)
def _in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def document(found: RunReport) -> Document:
    return run_document(found, advice_on(found))


def text(found: RunReport, width: int = 100) -> str:
    return painted(document_text(document(found), width))


def training() -> RunReport:
    return report_on(*story(), prices=Prices(0.30, "EUR", 380.0))


def two_sides(count: int) -> Document:
    def side(label: str, base: float, devices: int) -> RunSide:
        runs = (
            ComparedRun(
                f"{label}{n}",
                devices,
                {"duration_seconds": base + n, "idle_percent": devices, "log.loss": 1 / base},
            )
            for n in range(count)
        )
        return RunSide(label, tuple(runs))

    found = compare([side("fp32", 900, 1), side("bf16", 500, 2)])
    return comparison_document(found, {"fp32": "1 × H200", "bf16": "2 × H200"})


def group(recorded: bool = True) -> GroupUsage:
    days = {
        ("2026-11-14", "ada"): UserUsage(
            "ada", 36000, 36000, 9000, 7.2e6, 36000, 36000, 7200, 2, [60, 5]
        ),
        ("2026-11-15", "ada"): UserUsage("ada", 18000, 18000, 0, 7.2e6, 18000, 18000, 0, 1),
        ("2026-11-15", "bob"): UserUsage("bob", 7200),
    }
    return GroupUsage(
        "node-1", 1.7632e9, 1.7634e9, days, recorded=recorded, prices=Prices(0.3, "EUR")
    )


def test_a_training_run_is_reported_as_drawn() -> None:
    assert_golden("run-report.txt", text(training()))
    assert_golden("run-report.md", document_markdown(document(training())))
    assert_golden("run-report.html", document_html(document(training()), "andon"))
    assert_golden("run-report.csv", DEVICES.text((training(), one) for one in training().devices))


def test_a_comparison_is_drawn_with_and_without_a_verdict() -> None:
    assert_golden("run-compare.txt", painted(document_text(two_sides(3), 100)))
    assert_golden("run-compare-few.txt", painted(document_text(two_sides(1), 100)))


def test_the_use_of_a_group_is_drawn() -> None:
    assert_golden("who-report.txt", painted(document_text(group_document(group()), 100)))
    assert_golden("who-report.md", document_markdown(group_document(group())))
    assert_golden("who-report.csv", USAGE_DAYS.text(usage_days(group().days, {}, True)))


def test_without_a_history_hours_are_not_known_instead_of_zero() -> None:
    shown = painted(document_text(group_document(group(recorded=False)), 100))
    assert "0.0" not in shown
    assert usage_json(UserUsage("ada"), recorded=False)["device_seconds"] is None
    assert set(usage_json(None, recorded=True).values()) == {None}


def test_no_line_of_a_report_is_wider_than_the_screen() -> None:
    for width in (40, 80, 200):
        wide = [line for line in text(training(), width).splitlines() if len(line) > width]
        assert not wide


def lines_of(chart: str) -> list[float]:
    """The heights of all points of a chart's lines."""
    return [float(y) for path in re.findall(r' d="M([^"]*)"', chart)
            for y in re.findall(r",([0-9.]+)", path)]  # fmt: skip


@rows("values, tick", [
    ((-5.0, -1.0), "-4"),
    ((-3e-7, -1e-7), "-3e-07"),
    ((1e30, 4e30), "4e+30"),
    ((0.0, 0.0), "0"),
    ((-1.7e308, 1.7e308), "-1.7e+308"),
])  # fmt: skip
def test_the_axis_of_a_logged_value_reaches_from_its_lowest_to_above_its_highest(
    values: tuple[float, ...], tick: str
) -> None:
    chart = line_chart(LineChart("loss", "", (0, 1), (ChartLine("", values),), 1, None))
    assert f">{tick}</text>" in chart
    assert max(map(len, re.findall(r'"end">([^<]*)<', chart))) < 10, "beside the chart"
    assert all(TOP < y <= HEIGHT - BOTTOM for y in lines_of(chart)) or max(values) > 1e308


def test_what_was_logged_is_drawn_for_each_run_of_a_group() -> None:
    """From its first value to its last: before and after there is none."""

    def logged(*values: float) -> RunReport:
        lines = (RunLogged(BEGAN + 20 + 20 * n, {"loss": one}) for n, one in enumerate(values))
        return report_on(begin(), sample(1), *lines, end(duration_seconds=119.0))

    charts = run_charts([("a", logged(3.0, 2.0, 1.0)), ("b", logged(5.0)), ("c", logged())])
    [loss] = [one for one in charts if one.title == "loss"]
    assert [one.label for one in loss.lines] == ["a", "b"]
    first, second = (one.values for one in loss.lines)
    assert [first[place] for place in (19, 20, 39, 40, 60, 61, 62)] == [None, 3, 3, 2, 1, 1, None]
    assert [second[place] for place in (19, 20, 21, 22)] == [None, 5, 5, None]
    assert loss.low is None
    assert charts[1].title == "Utilisation"


def test_names_that_were_refused_are_told() -> None:
    refused = RunEvent(BEGAN + 3, "names_refused", {"names": "n993, <b>", "most": 1000})
    shown = text(report_on(begin(), refused, end()))
    assert "values beyond 1,000 names: n993, <b>" in shown


def test_out_of_memory_is_told_with_its_numbers() -> None:
    found = OutOfMemory("PyTorch", 4 * GIB, GIB, 130 * GIB, None, 2 * GIB, "step")
    shown = text(report(out_of_memory=found, state=RunState.DEVICE_OUT_OF_MEMORY))
    for words in (
        "Wanted             4.0 GiB", "Free               1.0 GiB",
        "Held by this run   130 GiB", "Held by others     not known",
        "Held by the cache  2.0 GiB", "Cause              one large step",
        "device out of memory after 10 min",
    ):  # fmt: skip
        assert words in shown


def test_of_a_record_whose_ends_alone_were_read_no_number_of_samples_is_shown() -> None:
    shown = text(report(samples=None, series=None))
    assert "No charts: only its two ends were read." in shown
    assert "Samples" not in shown


def test_a_run_without_samples_says_why() -> None:
    shown = text(report_on(begin(), end(samples=0, summary={}, no_samples_reason="no driver")))
    assert "No charts: no driver." in shown
    assert "Nothing stands out" not in shown


def test_a_run_that_goes_on_has_charts_of_what_there_is() -> None:
    lines: list[RunLine] = [begin(), *(sample(n, 90) for n in range(1, 9))]
    shown = text(report_on(*lines, alive=True, now=BEGAN + 9))
    assert "train: running for 9 s" in shown
    assert "Utilisation, %" in shown


def test_the_json_of_a_report_has_the_advice_and_no_series() -> None:
    found = report_json(training(), advice_on(training()))
    assert dumps(found)
    assert "series" not in found
    assert found["advice"][0]["name"] == "starved_loader"
    assert found["wasted_seconds"] == pytest.approx(432.0)


class Strict(HTMLParser):
    """Every tag is closed, and only those of ours occur."""

    KNOWN = frozenset({
        "html", "head", "meta", "title", "style", "body", "main", "h1", "h2", "p", "section", "dl",
        "div", "dt", "dd", "table", "thead", "tbody", "tr", "th", "td", "ul", "li", "figure",
        "figcaption", "small", "svg", "line", "text", "path", "rect", "span", "i", "footer",
    })  # fmt: skip
    VOID = frozenset({"meta"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in self.KNOWN
        assert not any(name.startswith("on") or name in ("href", "src") for name, _ in attrs)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in self.KNOWN

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def well_formed(page: str) -> None:
    parser = Strict()
    parser.feed(page)
    assert not parser.open


def hostile(words: str) -> RunReport:
    """A record whose every text is an attack."""
    lines: list[RunLine] = [
        begin(
            name=words, user=words, node=words, command=words, working_directory=words,
            params={words: words}, tags=(words,), group=words, allocation_method=words,
            devices=(RunDevice("GPU-a", 0, words, words, GIB),) * 2,
        ),
        RunEvent(BEGAN + 2, words, {words: words}),
        RunAlert(BEGAN + 3, words, words, words, words, words),
        *(sample(n) for n in range(1, 8)),
        end(
            message=words, no_samples_reason=words, last_values={words: 1.0},
            out_of_memory=OutOfMemory(words, growth=words),
        ),
    ]  # fmt: skip
    return replace(report_on(*lines), prices=Prices(1.0, words), cost=1.0)


def test_a_hostile_record_stays_text_in_every_form() -> None:
    found = document(hostile(HOSTILE))
    page = document_html(found, HOSTILE)
    well_formed(page)
    assert "<img" not in page
    assert "\u202e" not in page
    marked = document_markdown(found)
    prose = [line for line in marked.splitlines() if not line.startswith("    ")]  # code
    assert "<" not in marked, "not every Markdown knows a backslash in front of it"
    assert not [line for line in prose if "[a](" in line]
    plain = painted(document_text(found, 100))
    assert "\x1b" not in plain
    assert "\u202e" not in plain


@given(st.text(max_size=40))
def test_any_name_makes_a_well_formed_page(words: str) -> None:
    well_formed(document_html(document(hostile(words)), words))


def test_a_page_loads_nothing_and_runs_nothing() -> None:
    page = document_html(document(training()), "andon")
    assert "default-src 'none'" in page
    assert "http:" not in page.replace("http-equiv", "")
    assert "https:" not in page
    assert "url(" not in page


def test_a_gap_in_a_line_is_a_gap_in_the_chart() -> None:
    at = (0.0, 1.0, 2.0, 3.0, 4.0)
    line = ChartLine("GPU 0", (1.0, 2.0, None, 4.0, None))
    drawn = line_chart(LineChart("Power", "W", at, (line,), 4.0))
    _, path = drawn.split("<path")
    assert path.count("M") == 2
    assert "h1" in path  # a single point is seen too


NUMBERS = st.floats(-1e9, 1e9)


@given(NUMBERS, st.floats(1e-6, 1e9))
def test_ticks_lie_within_the_scale_and_are_few(low: float, span: float) -> None:
    high = low + span
    found = ticks(low, high)
    assert len(found) <= 6
    slack = 1e-6 * max(abs(low), abs(high), span)
    assert all(low - slack <= tick <= high + slack for tick in found)
    assert ticks(0.0, 5e-324) == [0.0], "a fourth of it is 0"


@given(st.floats(0.001, 1e8))
def test_time_ticks_begin_at_the_start_and_are_few(until: float) -> None:
    found = time_ticks(until)
    assert found[0] == 0.0
    assert len(found) <= 8


VALUES = st.lists(st.none() | NUMBERS, max_size=9)


@given(VALUES, VALUES, st.none() | NUMBERS, st.floats(0, 1e7))
def test_any_chart_is_well_formed(
    one: list[float | None], other: list[float | None], high: float | None, until: float
) -> None:
    at = tuple(float(n) for n in range(9))
    lines = (ChartLine("a", tuple(one)), ChartLine("b", tuple(other)))
    well_formed(line_chart(LineChart("t", "u", at, lines, until, None, high)))


@pytest.mark.parametrize(
    ("given_value", "words"),
    [(0.84, "0.84 s"), (72.94, "1 min 13 s"), (726, "12 min 6 s"), (None, "–")],
)
def test_durations_can_be_compared(given_value: float | None, words: str) -> None:
    assert seconds_text(given_value) == words


def test_rates_and_numbers_keep_three_digits() -> None:
    assert [rate(v, "items") for v in (3.2, 0.5, 0.001)] == [
        "3.20 items/s", "30 items/min", "3.60 items/h",
    ]  # fmt: skip
    assert [three(v) for v in (0.0, 0.00123, 1.234, 12.34, 123.4, 1.5e7)] == [
        "0", "0.00123", "1.23", "12.3", "123", "1.5e+07",
    ]  # fmt: skip
    assert [clock(v) for v in (45, 720, 12000)] == ["0:45", "12:00", "3:20:00"]


@given(st.lists(st.none() | st.floats(0, 100), max_size=200), st.integers(1, 60))
def test_thinning_keeps_the_range(values: list[Any], count: int) -> None:
    found = thinned(tuple(values), count)
    assert len(found) <= max(count, 0) or len(found) == len(values) <= count
    known, kept = ([v for v in row if v is not None] for row in (values, found))
    if kept:
        assert min(known) - 1e-9 <= min(kept) <= max(kept) <= max(known) + 1e-9


def test_gpu_hours_of_a_short_run_have_no_exponent() -> None:
    assert [hours(one) for one in (0.0, 0.05, 36.0, 5400.0)] == [
        "0 h", "below 0.001 h", "0.01 h", "1.50 h",
    ]  # fmt: skip
