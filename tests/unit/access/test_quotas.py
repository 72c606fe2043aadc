"""How connections are shared out, and which one goes."""

from itertools import product

import pytest

from andon.access.quotas import (
    AT_WORK,
    FEWEST,
    MOST,
    MOST_NODES,
    RESERVED_FILES,
    WAITING,
    ConnectionUse,
    Quotas,
    gives_way,
    may_work,
    quotas_for,
)


def counts(**given: int) -> dict[ConnectionUse, int]:
    return {standing: given.get(standing.value, 0) for standing in ConnectionUse}


@pytest.mark.parametrize("most", [FEWEST, 44, 150, 512, MOST])
def test_every_kind_has_its_share_and_none_has_all(most: int) -> None:
    quotas = Quotas(most)
    assert 0 < quotas.live < quotas.anonymous < quotas.at_work < most


def test_files_are_left_for_the_rest_of_the_server() -> None:
    assert quotas_for(None) == Quotas(MOST, MOST_NODES)
    assert quotas_for(MOST + RESERVED_FILES) == Quotas(MOST, 0)
    assert quotas_for(MOST + RESERVED_FILES + 70) == Quotas(MOST, 70)
    assert quotas_for(1024) == Quotas(1024 - RESERVED_FILES, 0)
    assert quotas_for(300) == Quotas(150, 0)
    assert quotas_for(8) == Quotas(FEWEST, 0)


@pytest.mark.parametrize("most", [FEWEST, 200])
def test_strangers_never_fill_all_places_however_they_come(most: int) -> None:
    quotas, now = Quotas(most), counts()
    for standing in (ConnectionUse.LIVE, ConnectionUse.ANONYMOUS) * most:
        if may_work(quotas, now, standing):
            now[standing] += 1
    assert sum(now.values()) == quotas.anonymous
    assert may_work(quotas, now, ConnectionUse.OWNER)


def test_live_clients_leave_room_for_plain_requests() -> None:
    quotas = Quotas(100)
    full = counts(live=quotas.live)
    assert not may_work(quotas, full, ConnectionUse.LIVE)
    assert may_work(quotas, full, ConnectionUse.ANONYMOUS)


def test_even_right_keys_leave_room_for_those_who_come() -> None:
    quotas = Quotas(100)
    assert may_work(quotas, counts(owner=quotas.at_work - 1), ConnectionUse.OWNER)
    assert not may_work(quotas, counts(owner=quotas.at_work), ConnectionUse.OWNER)


def test_nobody_goes_while_there_is_room() -> None:
    assert gives_way(Quotas(100), counts(silent=100)) is None


@pytest.mark.parametrize(
    ("given", "who"),
    [
        ({"silent": 60, "begun": 30, "kept": 11}, ConnectionUse.SILENT),
        ({"silent": 10, "begun": 80, "kept": 11}, ConnectionUse.BEGUN),
        ({"silent": 10, "kept": 91}, ConnectionUse.SILENT),
        ({"kept": 101}, ConnectionUse.IDLE),
    ],
)
def test_the_silent_go_first_but_a_tenth(given: dict[str, int], who: ConnectionUse) -> None:
    assert gives_way(Quotas(100), counts(**given)) is who


@pytest.mark.slow
def test_whoever_is_worked_for_never_goes() -> None:
    quotas = Quotas(20)
    for numbers in product(range(0, 21, 5), repeat=len(ConnectionUse)):
        now = dict(zip(ConnectionUse, numbers, strict=True))
        assert gives_way(quotas, now) not in AT_WORK
        if (
            sum(now[one] for one in AT_WORK) <= quotas.at_work
            and sum(numbers) - now[ConnectionUse.NODE] > quotas.most
        ):
            assert gives_way(quotas, now) in WAITING
