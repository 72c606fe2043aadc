"""A load: when requests are due, percentiles of all values, and what follows from results."""

from itertools import pairwise

import pytest

from andon.api.benchmark import order_of
from andon.errors import Invalid
from andon.work.rules.load import (
    ClientEnd,
    LoadOrder,
    RequestResult,
    arrivals,
    figures_of,
    made_prompts,
    percentiles,
    positive,
    route_of,
    values_of_load,
)


def order(**more: object) -> LoadOrder:
    return LoadOrder("http://x/v1/chat/completions", "m", ("p",), **more)  # type: ignore[arg-type]


def chances() -> float:
    return 0.5


def test_constant_arrivals_of_all_clients_together_are_evenly_spaced() -> None:
    found = [
        list(arrivals(order(rate=4.0, constant=True, seconds=2.0, share=s, shares=2), chances))
        for s in (0, 1)
    ]
    together = sorted(found[0] + found[1])
    assert len(together) == 8
    assert all(b - a == pytest.approx(0.25) for a, b in pairwise(together))


def test_poisson_arrivals_have_the_mean_of_the_rate_and_a_number_ends_them() -> None:
    import random

    made = random.Random(1)
    found = list(arrivals(order(rate=100.0, seconds=50.0), made.random))
    assert len(found) == pytest.approx(5000, rel=0.05)
    assert len(list(arrivals(order(rate=100.0, requests=7), made.random))) == 7
    counts = [len(list(arrivals(order(rate=9.0, requests=7, share=s, shares=3), made.random)))
              for s in range(3)]  # fmt: skip
    assert counts == [3, 2, 2]


def test_a_constant_rate_sends_as_many_requests_as_fit() -> None:
    """Added up, 75 times 0.2 s is less than 15 s, and one more would be sent."""
    wrong = []
    for rate, seconds in ((5, 15), (10, 1), (3, 10), (0.3, 10), (7, 60), (100, 3.3), (0.1, 30)):
        for shares in (1, 3):
            asked = [order(rate=float(rate), constant=True, seconds=float(seconds), share=share,
                           shares=shares) for share in range(shares)]  # fmt: skip
            sent = sum(len(list(arrivals(one, chances))) for one in asked)
            if sent != round(rate * seconds):
                wrong.append((rate, seconds, shares, sent))
    assert wrong == []


def test_percentiles_come_from_all_values() -> None:
    found = percentiles(float(value) for value in range(101))
    assert found is not None
    assert (found.p50, found.p90, found.p99, found.max, found.count) == (50, 90, 99, 100, 101)
    assert (found.mean, found.p95) == (50, 95)
    assert percentiles(()) is None


def test_figures_count_errors_by_kind_and_only_answers_in_times() -> None:
    results = [
        RequestResult(0.0, 0.01, 0.1, 1.0, 10, True, (0.1, 0.1)),
        RequestResult(0.5, 0.0, 0.3, 1.5, 20, True, (0.2,)),
        RequestResult(0.6, 0.0, error="timeout"),
        RequestResult(0.7, 0.0, error="429", detail="no"),
    ]
    found = figures_of(order(rate=2.0), results, [ClientEnd((0.0, 0.02), 3.0, 30)])
    assert (found.sent, found.done, found.tokens) == (4, 2, 30)
    assert found.errors == {"timeout": 1, "429": 1}
    assert found.tokens_per_second == pytest.approx(10.0)
    assert found.first_token is not None
    assert found.first_token.p50 == pytest.approx(0.2)
    assert found.client_bound
    values = values_of_load(found)
    assert values["end_to_end_max"] == 1.5
    assert values["errors"] == 2
    killed = figures_of(order(rate=2.0), results, [])  # its client said nothing at its end
    assert killed.seconds == pytest.approx(2.0)


def test_goodput_counts_requests_that_keep_every_limit() -> None:
    results = [
        RequestResult(0.0, 0.0, 0.1, 1.0, 10, True, (0.1, 0.1)),
        RequestResult(0.0, 0.0, 0.3, 1.5, 25, True, (0.05,)),
        RequestResult(0.0, 0.0, None, 0.2, 1, True),  # a whole answer: no first token is known
        RequestResult(0.0, 0.0, error="timeout"),
    ]
    ends = [ClientEnd((), 2.0)]
    found = figures_of(order(rate=2.0), results, ends)
    assert found.per_token is not None
    assert found.per_token.p50 == pytest.approx(0.075)  # without the first token
    assert found.per_token.count == 2
    assert found.goodput_per_second is None
    for limits, good in (
        ({"first_token": 0.2}, 1), ({"per_token": 0.07}, 2), ({"between_tokens": 0.07}, 2),
        ({"end_to_end": 1.2}, 2), ({"first_token": 0.4, "per_token": 0.07}, 1),
    ):  # fmt: skip
        kept = figures_of(order(rate=2.0, limits=limits), results, ends)
        assert kept.goodput_per_second == good / 2.0, limits
        assert values_of_load(kept)["goodput_per_second"] == good / 2.0


def test_routes_and_numbers_are_checked() -> None:
    assert route_of("http://h:1/v1") == "http://h:1/v1/chat/completions"
    assert route_of("http://h:1/", chat=False) == "http://h:1/v1/completions"
    assert route_of("https://h/x/chat/completions") == "https://h/x/chat/completions"
    for wrong in ("127.0.0.1:8000", "ftp://h", "http://", "http://h:x/v1", "http://[::1"):
        with pytest.raises(Invalid):
            route_of(wrong)
    assert positive("1.5", 10, "a rate") == 1.5
    for wrong in ("0", "-1", "nan", "inf", "x", "11"):
        with pytest.raises(Invalid):
            positive(wrong, 10, "a rate")


def test_made_prompts_have_the_length_and_the_same_seed_makes_the_same() -> None:
    import random

    made = made_prompts(3, 50, random.Random(1).random)
    assert [len(prompt.split()) for prompt in made] == [50] * 3
    assert len(set(made)) == 3
    assert made == made_prompts(3, 50, random.Random(1).random)


@pytest.mark.parametrize(
    "wrong",
    [{"seed": "x"}, {"input_tokens": "many"}, {"input_tokens": -1}, {"input_tokens": 10**12},
     {"warm_up": None}, {"warm_up": float("inf")}, {"prompts": "hello"}, {"prompts": [3]},
     {"model": "\udcff"}, {"prompts": ["\udcff"]}],
)  # fmt: skip
def test_a_mistake_in_a_specification_is_a_sentence(wrong: dict[str, object]) -> None:
    load = {"model": "m", "rate": 1, "seconds": 1}
    with pytest.raises(Invalid, match=next(iter(wrong)).removesuffix("s")):
        order_of("http://h:1", load | wrong)
    assert order_of("http://h:1", load | {"seed": -1, "prompts": ["hi"]}).prompts == ("hi",)
