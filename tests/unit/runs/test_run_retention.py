"""Which records go: the oldest, never marked ones, and never more than must."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from andon.model.run.record import RunRow, RunState
from andon.runs.rules.retention import RetentionPolicy, StoredRecord, overdue
from andon.testing.run_index_contract import AT, FIRST

PLAIN = replace(FIRST, tags=())


def record(age: float, size: int = 10, **changed: object) -> StoredRecord:
    row: RunRow = replace(PLAIN, id=f"run{age}", began=AT - age, **changed)
    return StoredRecord(row, size)


def dropped(*records: StoredRecord, seconds: float = 100, most: int = 1000) -> list[str]:
    found = overdue(records, RetentionPolicy(seconds, most), AT, {"run300"})
    return [one.row.id for one in found]


def test_what_is_too_old_goes_and_what_is_not_stays() -> None:
    assert dropped(record(50), record(101), record(100)) == ["run101"]


def test_the_oldest_go_until_the_rest_fits() -> None:
    assert dropped(record(1), record(2), record(3), most=15) == ["run3", "run2"]
    assert dropped(record(1), record(2), record(3), most=30) == []


@pytest.mark.parametrize(
    "marked",
    [
        record(200, tags=("paper",)),
        record(300),  # of a baseline
        record(200, state=RunState.RUNNING),
    ],
)
def test_what_is_marked_never_goes(marked: StoredRecord) -> None:
    assert dropped(marked, most=0) == []


def test_what_is_marked_still_takes_its_space() -> None:
    assert dropped(record(50, 900, tags=("paper",)), record(40, 200), most=1000) == ["run40"]


@given(
    st.lists(st.tuples(st.floats(0, 500), st.integers(0, 500), st.booleans()), max_size=12),
    st.integers(0, 3000),
)
def test_nothing_is_deleted_without_need(given_: list[tuple[float, int, bool]], most: int) -> None:
    records = [
        StoredRecord(replace(PLAIN, id=str(n), began=AT - age, tags=("t",) * marked), size)
        for n, (age, size, marked) in enumerate(given_)
    ]
    gone = {one.row.id for one in overdue(records, RetentionPolicy(100, most), AT, set())}
    left = [one for one in records if one.row.id not in gone]
    unmarked = [one for one in left if not one.row.tags]
    assert all(AT - one.row.began <= 100 for one in unmarked)
    if sum(one.size_bytes for one in left) > most:
        assert unmarked == []
    young = [one for one in records if one.row.id in gone and one.row.began >= AT - 100]
    if young:  # the youngest that went was still too much
        newest = max(one.row.began for one in young)
        last = [one.size_bytes for one in young if one.row.began == newest]
        assert sum(one.size_bytes for one in left) + max(last) > most
