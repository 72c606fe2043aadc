"""genai-bench as the client of a load: its command, its result file, and its figures as ours."""

import re
from collections.abc import Mapping, Sequence
from math import ceil
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from andon.errors import Invalid, Unavailable
from andon.model.codec import prepared
from andon.work.rules.load import (
    CHAT,
    MOST_REQUESTS,
    ClientEnd,
    LoadFigures,
    LoadOrder,
    RequestResult,
    figures_of,
    positive,
)

ROUTE = f"/v1{CHAT}"
TASK = "text-to-text"
OURS = {
    "model_name": "model", "api_model_name": "model", "num_concurrency": "concurrency",
    "max_requests_per_iteration": "requests", "max_requests_per_run": "requests", "api_key": "key",
    "max_time_per_iteration": "minutes", "max_time_per_run": "minutes",
    "traffic_scenario": "traffic_scenarios",
}  # fmt: skip
"""Our name for each of its fields."""
UNUSED = frozenset({"model_tokenizer", "api_backend", "additional_params", "iteration_type"})
_LENGTHS = re.compile(r"D\((\d+), ?(\d+)\)")
Seconds = Annotated[float, Meta(ge=0.0)]


class _Request(Struct):
    ttft: Seconds | None = None
    tpot: Seconds | None = None
    e2e_latency: Seconds | None = None
    num_output_tokens: Annotated[int, Meta(ge=0)] | None = None
    error_code: int | None = None
    error_message: str | None = None


class _Aggregated(Struct):
    run_duration: Seconds


class _Result(Struct):
    aggregated_metrics: _Aggregated
    individual_request_metrics: list[_Request]


def command_of(order: LoadOrder, tokenizer: str, input_tokens: int, folder: str) -> list[str]:
    """Returns its command; raises Invalid for a load that it cannot drive. The key is not in it."""
    refused = {
        "an open load: use --concurrency": order.rate is not None,
        "whole answers, without --no-stream": not order.stream,
        f"other routes than {ROUTE}": not order.url.endswith(ROUTE),
        "a load without --output-tokens": order.output_tokens is None,
    }
    for what, is_given in refused.items():
        if is_given:
            raise Invalid(f"genai-bench does not drive {what}")
    minutes = 10_000 if order.seconds is None else max(1, ceil(order.seconds / 60))
    return [
        "genai-bench", "benchmark", "--api-backend=openai", f"--task={TASK}",
        "--api-key=none",  # it must have one here, and uses that of its environment
        f"--api-base={order.url.removesuffix(ROUTE)}", f"--api-model-name={order.model}",
        f"--model-tokenizer={tokenizer}", f"--num-concurrency={order.concurrency}",
        f"--traffic-scenario=D({input_tokens},{order.output_tokens})",
        f"--max-time-per-run={minutes}",
        f"--max-requests-per-run={order.requests or MOST_REQUESTS}",
        f"--experiment-base-dir={folder}", "--experiment-folder-name=result",
        f"--log-dir={folder}", "--metrics-time-unit=s",
    ]  # fmt: skip


def each_load(spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns the loads of a specification, one for each value of a list; raises Invalid."""
    known = {OURS.get(word, word): one for word, one in spec.items() if word not in UNUSED}
    if known.pop("task", TASK) != TASK:
        raise Invalid(f"a load has the task {TASK}")
    if "minutes" in known:
        known["seconds"] = 60 * positive(str(known.pop("minutes")), 1e5, "a number of minutes")
    scenarios = known.pop("traffic_scenarios", None)
    lengths = [{}] if scenarios is None else [_lengths(str(one)) for one in _each(scenarios)]
    varied = "concurrency" if "concurrency" in known else "rate"
    values = _each(known.pop(varied, None))
    if not lengths or not values:
        raise Invalid("a list of loads is empty")
    if "slo" in known:
        known["slo"] = tuple(map(str, _each(known["slo"])))
    return [{**known, **one, varied: value} for one in lengths for value in values]


def _each(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else (value,)


def _lengths(scenario: str) -> dict[str, int]:
    found = _LENGTHS.fullmatch(scenario.strip())
    if found is None:
        raise Invalid(f"{scenario[:40]!r} is not a scenario of fixed lengths", hint="D(128,64)")
    return {"input_tokens": int(found[1]), "output_tokens": int(found[2])}


def results_in(content: bytes, began: float) -> tuple[list[RequestResult], ClientEnd]:
    """Returns the requests of a result file, which have no times of their own, and how long they
    took together. Between tokens it has only each request's mean."""
    try:
        found = msgspec.json.decode(content, type=prepared(_Result))
    except (msgspec.DecodeError, RecursionError) as exc:
        raise Unavailable(f"the result of genai-bench cannot be read: {exc}") from exc
    return [_result(one, began) for one in found.individual_request_metrics], ClientEnd(
        (), found.aggregated_metrics.run_duration
    )


def _result(one: _Request, began: float) -> RequestResult:
    if one.error_code is not None:
        detail = (one.error_message or "")[:200]
        return RequestResult(began, 0.0, error=str(one.error_code), detail=detail)
    gaps = () if one.tpot is None else (one.tpot,)
    tokens = one.num_output_tokens
    return RequestResult(
        began, 0.0, one.ttft, one.e2e_latency, tokens or 0, tokens is not None, gaps
    )


def figures(
    order: LoadOrder, results: Sequence[RequestResult], ends: list[ClientEnd]
) -> LoadFigures:
    """Returns the figures; how late it sent its requests is not known."""
    return replace(figures_of(order, results, ends), dispatch=None)
