"""A load on a server: the order for its clients, their reports, and the results."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import fsum, inf, isfinite, log
from urllib.parse import urlsplit

from msgspec import Struct, field

from andon.errors import Invalid

CHAT, COMPLETIONS = "/chat/completions", "/completions"
BEGUN = "begun"  # what a client prints when its load begins
CLIENT_BOUND_SECONDS = 0.010
"""From this lag of its event loop on, a client measures itself."""
MOST_RATE = 100_000.0
MOST_REQUESTS = 10_000_000
MOST_LINES = 100_000
"""Requests of a load that have a line of their own in the record."""
TIMES = {
    "first_token": "first token (TTFT)",
    "per_token": "per token (TPOT)",
    "between_tokens": "between tokens (ITL)",
    "end_to_end": "end to end",
}
STATISTICS = ("mean", "p50", "p90", "p95", "p99", "max")
REFUSED, TIMEOUT, BROKE, NONSENSE, SLOW = "refused", "timeout", "broke off", "nonsense", "slow"
WORDS = (
    "the", "of", "and", "to", "in", "is", "was", "for", "on", "that", "by", "with", "from", "at",
    "are", "this", "have", "not", "one", "but", "had", "word", "all", "were", "when", "there",
    "can", "an", "your", "which", "their", "time", "will", "way", "about", "many", "then", "them",
)  # fmt: skip
"""Words that most tokenisers take as one token each."""


class LoadOrder(Struct, frozen=True):
    """The order to a client process, which it reads, with the key, from its standard input."""

    url: str  # of the route
    model: str
    prompts: tuple[str, ...]
    rate: float | None = None  # requests a second, whatever the server does
    constant: bool = False  # evenly spaced; else arrivals of a Poisson process
    concurrency: int | None = None  # requests at a time
    seconds: float | None = None
    requests: int | None = None
    warm_up: int = 0  # requests before anything is measured
    output_tokens: int | None = None
    stream: bool = True
    timeout_seconds: float = 600.0
    seed: int = 0
    key: str = ""
    limits: Mapping[str, float] = field(default_factory=dict)  # seconds, by the name of a time
    share: int = 0  # which client this is
    shares: int = 1

    @property
    def label(self) -> str:
        return f"{self.rate:g}/s" if self.rate is not None else f"{self.concurrency} at once"


class RequestResult(Struct, frozen=True, array_like=True):
    """One request; times in seconds since it was planned, so that a queue before the server
    counts."""

    at: float  # UTC, of the planned send
    delay: float  # until it was sent
    first: float | None = None  # until the first token
    total: float | None = None
    tokens: int = 0
    by_usage: bool = False  # whether the server counted the tokens
    gaps: tuple[float, ...] = ()  # between chunks with text
    error: str | None = None  # its kind
    detail: str = ""

    @property
    def per_token(self) -> float | None:
        """The mean time of a token after the first (TPOT)."""
        if self.first is None or self.total is None or self.tokens < 2:
            return None
        return (self.total - self.first) / (self.tokens - 1)

    def keeps(self, limits: Mapping[str, float]) -> bool:
        """Whether it succeeded within these limits, each of its gaps too."""
        first = inf if self.first is None else self.first
        known = (first, self.per_token or 0.0, max(self.gaps, default=0.0), self.total or 0.0)
        times = dict(zip(TIMES, known, strict=True))
        return self.error is None and all(times[one] <= most for one, most in limits.items())


class ClientEnd(Struct, frozen=True):
    """The last line that a client prints."""

    lag: tuple[float, ...]  # how late its event loop was, again and again
    seconds: float
    chunks: int = 0


class Percentiles(Struct, frozen=True):
    p50: float
    p90: float
    p99: float
    max: float
    count: int
    p95: float
    mean: float


class LoadFigures(Struct, frozen=True):
    """The figures of one load."""

    label: str
    seconds: float
    sent: int
    done: int
    first_token: Percentiles | None
    between_tokens: Percentiles | None
    end_to_end: Percentiles | None
    dispatch: Percentiles | None  # the delay of sending, which is part of the other times
    tokens: int
    tokens_per_second: float
    requests_per_second: float
    errors: Mapping[str, int] = field(default_factory=dict)
    example: str = ""  # what one of the errors said
    tokens_by_usage: bool = False  # else chunks were counted
    lag_seconds: float | None = None  # None: not measured
    chunks_per_second: float = 0.0
    per_token: Percentiles | None = None  # the mean time of a token after the first (TPOT)
    goodput_per_second: float | None = None  # requests that kept the limits; None without any

    @property
    def client_bound(self) -> bool:
        return (self.lag_seconds or 0.0) > CLIENT_BOUND_SECONDS


def percentiles(values: Iterable[float]) -> Percentiles | None:
    """Returns the percentiles of all values, not of buckets; None without values."""
    known = sorted(values)
    if not known:
        return None
    p50, p90, p95, p99 = (percentile(known, share) for share in (0.5, 0.9, 0.95, 0.99))
    return Percentiles(p50, p90, p99, known[-1], len(known), p95, fsum(known) / len(known))


def percentile(ordered: Sequence[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def figures_of(
    order: LoadOrder, results: Sequence[RequestResult], ends: Sequence[ClientEnd]
) -> LoadFigures:
    done = [one for one in results if one.error is None]
    failed = [one for one in results if one.error is not None]
    seconds = max((one.seconds for one in ends), default=0.0) or _lasted(results)
    tokens = sum(one.tokens for one in done)
    lags = sorted(lag for end in ends for lag in end.lag)
    good = sum(one.keeps(order.limits) for one in results)
    return LoadFigures(
        label=order.label,
        seconds=seconds,
        sent=len(results),
        done=len(done),
        first_token=percentiles(one.first for one in done if one.first is not None),
        between_tokens=percentiles(gap for one in done for gap in one.gaps),
        end_to_end=percentiles(one.total for one in done if one.total is not None),
        dispatch=percentiles(one.delay for one in results),
        tokens=tokens,
        tokens_per_second=tokens / seconds if seconds else 0.0,
        requests_per_second=len(done) / seconds if seconds else 0.0,
        errors=dict(Counter(one.error or "" for one in failed).most_common()),
        example=failed[0].detail if failed else "",
        tokens_by_usage=bool(done) and all(one.by_usage for one in done),
        lag_seconds=percentile(lags, 0.99) if lags else None,
        chunks_per_second=sum(end.chunks for end in ends) / seconds if seconds else 0.0,
        per_token=percentiles(one.per_token for one in done if one.per_token is not None),
        goodput_per_second=good / seconds if order.limits and seconds else None,
    )


def _lasted(results: Sequence[RequestResult]) -> float:
    """Returns how long the requests took together, for a client killed before it reported that."""
    if not results:
        return 0.0
    ends = (one.at + (one.total or one.delay) for one in results)
    return max(ends) - min(one.at for one in results)


def values_of_load(found: LoadFigures) -> dict[str, float]:
    """Returns the figures as a run logs them."""
    out = {
        "requests_per_second": found.requests_per_second,
        "tokens_per_second": found.tokens_per_second,
        "errors": float(sum(found.errors.values())),
    }
    if found.lag_seconds is not None:
        out["client_lag_seconds"] = found.lag_seconds
    if found.goodput_per_second is not None:
        out["goodput_per_second"] = found.goodput_per_second
    for name in (*TIMES, "dispatch"):
        one: Percentiles | None = getattr(found, name)
        if one is not None:
            out |= {f"{name}_{p}": getattr(one, p) for p in STATISTICS}
    return out


# What is asked.


def arrivals(order: LoadOrder, chance: Callable[[], float]) -> Iterator[float]:
    """Yields when each request of an open load is due, in seconds since it began; `chance` returns
    random numbers from 0 to 1."""
    assert order.rate is not None
    at, count = 0.0, 0
    most = None if order.requests is None else _own_share(order.requests, order)
    while most is None or count < most:
        if order.constant:  # not added up: 75 times 0.2 s is less than 15 s then
            at = (order.share + count * order.shares) / order.rate
        else:
            at += -log(1.0 - chance()) * order.shares / order.rate
        if order.seconds is not None and at >= order.seconds:
            return
        yield at
        count += 1


def _own_share(count: int, order: LoadOrder) -> int:
    return count // order.shares + (order.share < count % order.shares)


def own_requests(order: LoadOrder) -> int | None:
    return None if order.requests is None else _own_share(order.requests, order)


def own_concurrency(order: LoadOrder) -> int:
    return _own_share(order.concurrency or 0, order)


def route_of(url: str, chat: bool = True) -> str:
    """Returns the URL of the route, unless the given URL includes one."""
    try:
        parts = urlsplit(url)
        is_url = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        is_url = False
    if not is_url:
        raise Invalid(
            f"{url[:80]!r} is not the URL of a server", hint="write http://127.0.0.1:8000/v1"
        )
    plain = url.rstrip("/")
    if plain.endswith(COMPLETIONS):
        return plain
    base = plain if parts.path.strip("/") else f"{plain}/v1"
    return base + (CHAT if chat else COMPLETIONS)


def positive(word: str, most: float, what: str) -> float:
    """Parses a number above 0."""
    try:
        number = float(word)
    except ValueError:
        number = 0.0
    if not isfinite(number) or not 0 < number <= most:
        raise Invalid(f"{word[:40]!r} is not {what}", hint=f"a number above 0, up to {most:,.0f}")
    return number


def made_prompts(count: int, tokens: int, chance: Callable[[], float]) -> tuple[str, ...]:
    """Returns random prompts of about this many tokens, so that no server answers from a cache."""
    out = []
    for _ in range(count):
        chosen = [WORDS[int(chance() * len(WORDS))] for _ in range(max(1, tokens))]
        out.append(" ".join(chosen))
    return tuple(out)
