"""genai-bench as the client of a load, by a file that version 0.0.5 wrote about a test's server."""

from pathlib import Path
from typing import Any

import pytest

from andon.errors import Invalid, Unavailable
from andon.work.rules.genai_bench import command_of, each_load, figures, results_in
from andon.work.rules.load import LoadOrder

FILES = Path(__file__).parents[2] / "recorded" / "genai-bench"


def order(**more: Any) -> LoadOrder:
    given = {"concurrency": 2, "requests": 12, "output_tokens": 5, "key": "secret", **more}
    return LoadOrder("http://127.0.0.1:8000/v1/chat/completions", "m", ("a",), **given)


def test_its_result_is_a_row_of_our_table() -> None:
    (path,) = FILES.iterdir()
    results, end = results_in(path.read_bytes(), 5.0)
    found = figures(order(), results, [end])
    assert (found.label, found.sent, found.done, found.tokens) == ("2 at once", 20, 20, 100)
    assert found.tokens_by_usage
    assert found.first_token is not None
    assert 0.05 < found.first_token.p50 < 0.1
    assert found.between_tokens is not None
    assert found.between_tokens.count == 20
    assert found.tokens_per_second == pytest.approx(100 / end.seconds)
    assert (found.dispatch, found.lag_seconds, found.client_bound) == (None, None, False)


def test_failed_requests_have_their_kind() -> None:
    text = (
        b'{"aggregated_metrics": {"run_duration": 2.0}, "individual_request_metrics": '
        b'[{"error_code": 429, "error_message": "too many"}, {"e2e_latency": 1.0}]}'
    )
    results, end = results_in(text, 5.0)
    found = figures(order(), results, [end])
    assert (found.errors, found.example, found.done) == ({"429": 1}, "too many", 1)
    for wrong in (b"{", b"{}", b'{"aggregated_metrics": {"run_duration": -1}}'):
        with pytest.raises(Unavailable, match="cannot be read"):
            results_in(wrong, 5.0)


def test_its_command_has_no_key_and_minutes() -> None:
    words = command_of(order(seconds=61.0), "tok", 16, "/tmp/x")
    assert "--api-base=http://127.0.0.1:8000" in words
    assert "--max-time-per-run=2" in words
    assert "--traffic-scenario=D(16,5)" in words
    assert "secret" not in " ".join(words)


@pytest.mark.parametrize(
    "more", [{"rate": 2.0, "concurrency": None}, {"stream": False}, {"output_tokens": None}]
)
def test_what_it_cannot_drive_is_refused(more: dict[str, Any]) -> None:
    with pytest.raises(Invalid, match="genai-bench does not drive"):
        command_of(order(**more), "tok", 16, "/tmp/x")


def test_a_specification_in_its_words_is_a_load_for_each_value() -> None:
    spec = {
        "task": "text-to-text", "model_name": "m", "model_tokenizer": "org/m",
        "traffic_scenarios": ["D(100,50)", "D(8, 4)"], "num_concurrency": [1, 4],
        "max_time_per_iteration": 2, "max_requests_per_iteration": 50, "additional_params": {},
    }  # fmt: skip
    rest = {"model": "m", "seconds": 120.0, "requests": 50}
    assert each_load(spec) == [
        {**rest, "input_tokens": given, "output_tokens": wanted, "concurrency": at_once}
        for given, wanted in ((100, 50), (8, 4))
        for at_once in (1, 4)
    ]
    own = {"model": "m", "rate": 4, "seconds": 60, "slo": "first-token=500ms"}
    assert each_load(own) == [{**own, "slo": ("first-token=500ms",)}]
    mistakes: tuple[dict[str, Any], ...] = (
        {"task": "text-to-embeddings"}, {"traffic_scenarios": ["N(480,240)/(300,150)"]},
        {"num_concurrency": []}, {"max_time_per_run": -1},
    )  # fmt: skip
    for wrong in mistakes:
        with pytest.raises(Invalid):
            each_load({**spec, **wrong})
