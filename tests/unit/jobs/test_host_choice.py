"""Which host a job goes to, and how many jobs share several hosts."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from andon.jobs.rules.host_choice import chosen_text, host_lines, offer_text, spread
from andon.model.job.cluster import HostOffer
from andon.model.job.desk import cluster_in
from tests.support.rows import rows


def free(count: int, gpus: int = 4) -> HostOffer:
    labels = tuple(str(index) for index in range(count))
    return HostOffer(gpus, count, labels[:1], 0, 0.0 if count else None)


def busy(starts_in: float | None, wanted: int = 0, gpus: int = 4) -> HostOffer:
    return HostOffer(gpus, 0, (), wanted, starts_in)


@rows(
    "offers, best",
    [
        ({"a": free(1), "b": free(3)}, "b"),  # the most free
        ({"a": free(2), "b": free(2)}, "a"),  # else the first that was named
        ({"a": busy(2400.0), "b": busy(60.0)}, "b"),  # the first to start
        ({"a": busy(None), "b": busy(86_400.0)}, "b"),  # a start that is known
        ({"a": busy(None, wanted=4), "b": busy(None, wanted=1)}, "b"),  # the shorter queue
        ({"a": busy(None, 2, gpus=8), "b": busy(None, 2, gpus=2)}, "a"),  # among more GPUs
        ({"a": busy(1.0), "b": free(1)}, "b"),  # now is before soon
        ({"a": HostOffer(4, 3, (), 3, 600.0), "b": busy(60.0)}, "b"),  # free, and others wait
    ],
)
def test_the_best_host(offers: dict[str, HostOffer], best: str) -> None:
    assert spread(offers, 1, 1) == [best]


def test_equal_hosts_get_equally_many() -> None:
    found = Counter(spread({name: free(4) for name in "abc"}, 1, 30))
    assert found == {"a": 10, "b": 10, "c": 10}


def test_free_gpus_are_taken_first_then_those_of_larger_hosts() -> None:
    offers = {"small": free(1, gpus=1), "large": free(4, gpus=4)}
    assert Counter(spread(offers, 1, 5)) == {"small": 1, "large": 4}
    assert Counter(spread(offers, 1, 25)) == {"small": 5, "large": 20}


def test_a_job_of_several_gpus_counts_as_several() -> None:
    offers = {"a": free(4), "b": free(3, gpus=4)}
    assert Counter(spread(offers, 2, 3)) == {"a": 2, "b": 1}


OFFER = st.builds(
    lambda gpus, free, wanted, starts: HostOffer(
        gpus, min(free, gpus), ("0",) if free and not wanted else (), wanted,
        0.0 if free and not wanted else starts,
    ),
    st.integers(1, 16), st.integers(0, 16), st.integers(0, 40), st.none() | st.floats(1.0, 1e6),
)  # fmt: skip


@given(st.dictionaries(st.text("abcdef", min_size=1), OFFER, min_size=1), st.integers(1, 8),
       st.integers(1, 60))  # fmt: skip
def test_each_job_has_a_host_and_those_that_can_start_now_do(
    offers: dict[str, HostOffer], gpus: int, count: int
) -> None:
    found = spread(offers, gpus, count)
    assert len(found) == count
    assert set(found) <= offers.keys()
    at_once = sum(one.free // gpus for one in offers.values() if one.starts_in == 0)
    given_out = Counter(found)
    started = sum(
        min(given_out[name], one.free // gpus) for name, one in offers.items() if one.starts_in == 0
    )
    assert started == min(count, at_once)


def test_what_is_said_of_a_choice() -> None:
    offers = {"n17": busy(2400.0), "n18": HostOffer(4, 3, ("1",), 0, 0.0), "n19": busy(None)}
    assert offer_text(offers["n18"]) == "GPU 1 of 3 free now"
    assert "\33" not in offer_text(HostOffer(4, 3, ("\33[31m1",)))
    assert chosen_text(["n18"], offers, {"n20": "connection refused"}) == (
        "on n18 (GPU 1 of 3 free now; n17 would start in 40 min; n19 0 of 4 GPUs free; "
        "n20: connection refused)"
    )
    assert chosen_text(["n18", "n17", "n18"], offers, {}) == "2 on n18; 1 on n17"
    assert chosen_text(["n18", "n18"], offers, {}).startswith("on n18 (GPU 1 of 3 free now; ")
    assert host_lines(offers, {})[0] == "n17 would start in 40 min"


@rows(
    "word, name",
    [
        ("lab:4711", "lab"),
        ("ssh:n18:42", "ssh:n18"),
        ("ssh:ada@n18:42_3", "ssh:ada@n18"),
        ("ssh:ssh://n18:2222:42", "ssh:ssh://n18:2222"),
        ("ssh:n18", "ssh"),  # of no job
        ("train", ""),
        ("12", ""),
        (12, ""),
    ],
)
def test_the_cluster_in_a_name(word: str | int, name: str) -> None:
    assert cluster_in(word) == name
