"""The usage of users under the names of their groups."""

from hypothesis import given
from hypothesis import strategies as st

from andon.history.rules.usage import Days, UserUsage, renamed, summed

USERS = st.sampled_from("abcdef")
DAYS = st.dictionaries(
    st.tuples(st.sampled_from(["2026-11-01", "2026-11-02"]), USERS),
    st.integers(0, 10**6),
    max_size=12,
)


@given(DAYS, st.dictionaries(USERS, st.sampled_from(["vision", "speech"])))
def test_nothing_is_lost_and_nothing_counted_twice(
    hours: dict[tuple[str, str], int], groups: dict[str, str]
) -> None:
    days: Days = {key: UserUsage(key[1], float(n)) for key, n in hours.items()}
    found = renamed(days, lambda user: groups.get(user, "–"))
    assert {name for _, name in found} <= {"vision", "speech", "–"}
    for day in {day for day, _ in days}:
        before = sum(one.device_seconds for (on, _), one in days.items() if on == day)
        assert sum(one.device_seconds for (on, _), one in found.items() if on == day) == before
    assert all(one.user == name for (_, name), one in found.items())
    assert sum(one.device_seconds for one in summed(days.items())) == sum(hours.values())
    assert [one.device_seconds for one in days.values()] == [*map(float, hours.values())]
