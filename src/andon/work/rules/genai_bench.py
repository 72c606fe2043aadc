"""genai-bench as the client of a load: its command, and its result file as ours."""

from collections.abc import Sequence
from math import ceil
from typing import Annotated

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from andon.errors import Invalid, Unavailable
from andon.work.rules.load import (
    CHAT,
    MOST_REQUESTS,
    ClientEnd,
    LoadFigures,
    LoadOrder,
    RequestResult,
    figures_of,
)

ROUTE = f"/v1{CHAT}"
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
        "genai-bench", "benchmark", "--api-backend=openai", "--task=text-to-text",
        "--api-key=none",  # it must have one here, and uses that of its environment
        f"--api-base={order.url.removesuffix(ROUTE)}", f"--api-model-name={order.model}",
        f"--model-tokenizer={tokenizer}", f"--num-concurrency={order.concurrency}",
        f"--traffic-scenario=D({input_tokens},{order.output_tokens})",
        f"--max-time-per-run={minutes}",
        f"--max-requests-per-run={order.requests or MOST_REQUESTS}",
        f"--experiment-base-dir={folder}", "--experiment-folder-name=result",
        f"--log-dir={folder}", "--metrics-time-unit=s",
    ]  # fmt: skip


def results_in(content: bytes, began: float) -> tuple[list[RequestResult], ClientEnd]:
    """Returns the requests of a result file, in which they have no times of their own, and how
    long they took together. Between tokens it has one value for each request: its mean."""
    try:
        found = msgspec.json.decode(content, type=_Result)
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
    return replace(figures_of(order.label, results, ends), dispatch=None)
