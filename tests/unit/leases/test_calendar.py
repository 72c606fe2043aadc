"""What is free at a time to come: by the ends of leases and by reservations."""

from collections.abc import Sequence
from math import inf

from hypothesis import given
from hypothesis import strategies as st

from andon.leases.rules.calendar import SHORTEST_SECONDS, next_time, offer_at
from andon.leases.rules.offer import Offer, OfferRow
from andon.leases.rules.spans import Span, first_gap, others_spans
from andon.model.verdict import DeviceVerdict, VerdictKind
from tests.support.reservations import AT, HOUR, reservation
from tests.support.rows import rows


def row(index: int, held_until: float | None = 0.0, code: str | None = None) -> OfferRow:
    """A device that is free (0.0), held until then, held without an end (None), or else in the
    way."""
    kind = VerdictKind.FREE if held_until == 0.0 and code is None else VerdictKind.HELD
    if code is not None:
        kind = VerdictKind.WITHHELD if code == "reserved" else VerdictKind.IN_USE
    verdict = DeviceVerdict(
        f"g{index}", index, str(index), kind, None, None, held_until or None, code, code
    )
    return OfferRow(verdict, "H200", 1, 0.0)


def offer(*found: OfferRow, least: int = 1) -> Offer:
    return Offer(AT, False, f"{least} GPU", least, found)


@rows(
    "taken, seconds, gap",
    [
        ([], None, AT),
        ([(AT - 10, AT)], None, AT),
        ([(AT + 10, AT + 20)], 10.0, AT),
        ([(AT + 10, AT + 20)], 11.0, AT + 20),
        ([(AT + 10, AT + 20)], None, AT + 20),
        ([(AT + 30, AT + 40), (AT, AT + 20)], 10.0, AT + 20),
        ([(AT + 25, AT + 40), (AT, AT + 20)], 10.0, AT + 40),
        ([(AT, inf)], 1.0, inf),
    ],
)
def test_the_first_gap(taken: Sequence[Span], seconds: float | None, gap: float) -> None:
    assert first_gap(taken, AT, seconds) == gap


SPANS = st.lists(
    st.tuples(st.integers(0, 30), st.integers(1, 10)).map(lambda t: (AT + t[0], AT + t[0] + t[1])),
    max_size=6,
)


@given(SPANS, st.integers(0, 20), st.integers(1, 12))
def test_a_gap_meets_no_span_and_none_comes_before_it(
    taken: list[Span], after: int, seconds: int
) -> None:
    at = AT + after
    found = first_gap(taken, at, seconds)
    assert all(end <= found or found + seconds <= begin for begin, end in taken)
    for earlier in range(int(at), int(found)):
        assert any(begin < earlier + seconds and earlier < end for begin, end in taken)


def test_a_lease_with_an_end_has_ended_then_and_a_reservation_is_its_users() -> None:
    found = offer(row(0), row(1, AT + HOUR), row(2, None), row(3, code="unleased_process"))
    later = [reservation(("g0", "g2"), AT + 2 * HOUR, 1)]
    for moment, uid, free in (
        (AT + HOUR - 1, 2, [0]), (AT + HOUR, 2, [0, 1]), (AT + 2 * HOUR, 2, [1]),
        (AT + 2 * HOUR, 1, [0, 1]), (AT + 3 * HOUR, 2, [0, 1]),
    ):  # fmt: skip
        then = offer_at(found, later, uid, moment)
        assert [one.verdict.index for one in then.rows if one.is_free] == free, moment - AT
        assert then.at == moment
        assert [one.verdict.index for one in then.rows if one.chosen] == free[:1]
    then = offer_at(found, later, 2, AT + 2 * HOUR)
    assert then.rows[0].verdict.reason == "reserved by u1 (r1)"
    assert then.rows[2].verdict.kind is VerdictKind.HELD, "who has it now has it then"


def test_what_is_reserved_now_is_free_after_it() -> None:
    now = [reservation(begins=AT - 60, hours=1)]
    found = offer(row(0, AT - 60 + HOUR, code="reserved"))
    assert not offer_at(found, now, 2, AT + 60).available
    assert offer_at(found, now, 2, AT + HOUR).available


@rows(
    "count, seconds, start, until",
    [
        (1, None, AT, inf),  # g2
        (2, None, AT, AT + HOUR),  # and g0, before it is reserved
        (2, HOUR, AT, AT + HOUR),
        (2, HOUR + 1, AT + 2 * HOUR, inf),  # g1, when its lease has ended
        (3, None, AT + 2 * HOUR, AT + 4 * HOUR),
        (3, 4 * HOUR, AT + 5 * HOUR, inf),
        (4, None, inf, inf),
    ],
)
def test_the_next_time(count: int, seconds: float | None, start: float, until: float) -> None:
    found = offer(row(0), row(1, AT + 2 * HOUR), row(2), row(3, None), least=count)
    spans = {"g0": [(AT + HOUR, AT + 2 * HOUR), (AT + 4 * HOUR, AT + 5 * HOUR)]}
    assert next_time(found, spans, seconds) == (start, until)


@given(st.lists(SPANS, min_size=1, max_size=4), st.integers(1, 4), st.integers(60, 600))
def test_the_next_time_is_one_at_which_the_request_is_met(
    spans: list[list[Span]], count: int, seconds: int
) -> None:
    known = {f"g{n}": [(b * 1.0, e + SHORTEST_SECONDS) for b, e in s] for n, s in enumerate(spans)}
    found = offer(*(row(n) for n in range(len(spans))), least=count)
    start, until = next_time(found, known, seconds)
    if count > len(spans):
        assert start == inf
        return
    free = [n for n, s in known.items() if first_gap(s, start, seconds) == start]
    assert len(free) >= count
    assert until >= start + seconds


def test_only_what_others_have_reserved_is_taken() -> None:
    made = [reservation(("g0", "g1")), reservation(("g1",), AT + 9 * HOUR, uid=2, id_="r2")]
    assert others_spans(made, 2, AT) == {"g0": ((AT + HOUR, AT + 3 * HOUR),)} | {
        "g1": ((AT + HOUR, AT + 3 * HOUR),)
    }
    assert others_spans(made, 1, AT).keys() == {"g1"}
    assert others_spans(made, 3, AT + 3 * HOUR).keys() == {"g1"}
