"""`@andon.lease(...)`: what the function gets, when the lease ends, and what the environment is."""

import asyncio
import gc
import inspect
import logging
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import pytest

from andon.api.lease import seen_from_outside
from andon.api.leased import ENVIRONMENT, leased
from andon.model.device import Snapshot
from tests.support import snapshots as drawn

MASK, LEASE = "CUDA_VISIBLE_DEVICES", "ANDON_LEASE"


@dataclass
class FakeHeld:
    """A lease that was granted, with the variables of its device."""

    number: int

    @property
    def environment(self) -> dict[str, str]:
        return {MASK: f"GPU-{self.number}", LEASE: f"lease{self.number}"}


@dataclass
class Desk:
    """Hands out leases in turn, and knows which of them are in force."""

    held: list[int] = field(default_factory=list)
    given: int = 0

    def request(self) -> "FakeRequest":
        return FakeRequest(self)


class FakeRequest:
    """One request, sync and async."""

    def __init__(self, desk: Desk) -> None:
        self._desk, self._number = desk, -1

    def __enter__(self) -> FakeHeld:
        self._number, self._desk.given = self._desk.given, self._desk.given + 1
        self._desk.held.append(self._number)
        return FakeHeld(self._number)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._desk.held.remove(self._number)

    async def __aenter__(self) -> FakeHeld:
        return self.__enter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.__exit__(kind, error, at)


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.setenv(MASK, "3")
    monkeypatch.delenv(LEASE, raising=False)
    return Desk()


def variables() -> tuple[str | None, str | None]:
    return os.environ.get(MASK), os.environ.get(LEASE)


def in_thread(work: Callable[[], object]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def test_a_function_runs_with_the_variables_of_its_lease_and_they_are_put_back(desk: Desk) -> None:
    def train(x: int) -> tuple[int, Any]:
        assert desk.held == [0]
        return x, variables()

    assert leased(train, desk.request)(7) == (7, ("GPU-0", "lease0"))
    assert variables() == ("3", None)
    assert desk.held == []


def test_they_are_put_back_after_a_failure_and_after_the_function_changed_them(desk: Desk) -> None:
    def fails() -> None:
        os.environ[MASK] = ""
        del os.environ[LEASE]
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        leased(fails, desk.request)()
    assert variables() == ("3", None)
    assert desk.held == []


def test_a_parameter_named_held_gets_the_lease_and_callers_do_not_see_it(desk: Desk) -> None:
    def train(x: int, held: Any = None, *, y: int = 0) -> Any:
        return x, y, held.number

    made = leased(train, desk.request)
    assert made(1, y=2) == (1, 2, 0)
    assert list(inspect.signature(made).parameters) == ["x", "y"]
    assert made.__name__ == "train"


def test_a_method_gets_it_too(desk: Desk) -> None:
    class Trainer:
        @(lambda function: leased(function, desk.request))
        def train(self, held: Any = None) -> Any:
            return held.number

    assert Trainer().train() == 0


def test_what_a_caller_gives_as_held_stays(desk: Desk) -> None:
    def train(held: object = None) -> object:
        return held

    made = leased(train, desk.request)
    assert made("mine") == "mine"
    assert made(held="mine") == "mine"


def test_any_keywords_are_not_a_parameter_for_it(desk: Desk) -> None:
    def train(**more: object) -> dict[str, object]:
        return more

    assert leased(train, desk.request)(a=1) == {"a": 1}


def test_nested_calls_have_devices_of_their_own_and_end_in_order(desk: Desk) -> None:
    seen = []

    def inner() -> None:
        seen.append((variables(), ENVIRONMENT.outside()))

    def outer() -> None:
        seen.append((variables(), None))
        leased(inner, desk.request)()
        seen.append((variables(), None))

    leased(outer, desk.request)()
    assert [found for found, _ in seen] == [
        ("GPU-0", "lease0"), ("GPU-1", "lease1"), ("GPU-0", "lease0"),
    ]  # fmt: skip
    outside = seen[1][1]
    assert outside is not None
    assert (outside[MASK], outside.get(LEASE)) == ("3", None)
    assert ENVIRONMENT.outside() is None
    assert variables() == ("3", None)


def test_a_thread_gets_its_lease_and_leaves_the_environment_of_the_others_alone(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[Any] = []

    def work(held: Any = None) -> None:
        seen.append((held.number, variables()))

    in_thread(leased(work, desk.request))
    assert seen == [(0, ("3", None))]
    assert not caplog.records


def test_a_call_that_cannot_know_its_devices_is_warned_about_once(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    def work() -> None:
        pass

    made = leased(work, desk.request)
    made()  # in the main thread the environment says it
    assert not caplog.records
    with caplog.at_level(logging.WARNING, "andon"):
        in_thread(made)
        in_thread(made)
    [record] = caplog.records
    assert "work has a lease and cannot know its devices" in record.getMessage()
    assert "`held`" in record.getMessage()


def test_coroutines_at_the_same_time_each_get_their_own(desk: Desk) -> None:
    async def serve(name: str, held: Any = None) -> Any:
        await asyncio.sleep(0)
        return name, held.number, sorted(desk.held), variables()

    async def both() -> Any:
        made = leased(serve, desk.request)
        assert inspect.iscoroutinefunction(made)
        return await asyncio.gather(made("a"), made("b"))

    assert asyncio.run(both()) == [
        ("a", 0, [0, 1], ("3", None)), ("b", 1, [1], ("3", None)),
    ]  # fmt: skip
    assert desk.held == []


def test_a_generator_has_its_lease_from_the_first_item_to_the_last(desk: Desk) -> None:
    def batches(count: int, held: Any = None) -> Iterator[tuple[int, Any]]:
        for _ in range(count):
            yield held.number, variables()

    made = leased(batches, desk.request)(2)
    assert desk.held == []  # nothing runs yet
    assert next(made) == (0, ("3", None))
    assert desk.held == [0]
    assert len(list(made)) == 1
    assert desk.held == []


def test_a_generator_that_is_given_up_gives_its_lease_back(desk: Desk) -> None:
    def forever(held: Any = None) -> Iterator[int]:
        while True:
            yield held.number

    made = leased(forever, desk.request)()
    next(made)
    del made
    gc.collect()
    assert desk.held == []


def test_an_async_generator_has_its_lease_from_the_first_item_to_the_last(desk: Desk) -> None:
    async def batches(held: Any = None) -> AsyncIterator[tuple[int, list[int]]]:
        for _ in range(2):
            yield held.number, list(desk.held)

    async def all_of_them() -> list[tuple[int, list[int]]]:
        return [one async for one in leased(batches, desk.request)()]

    assert asyncio.run(all_of_them()) == [(0, [0]), (0, [0])]
    assert desk.held == []


def test_a_grant_inside_a_leased_call_sees_what_the_process_may_use(desk: Desk) -> None:
    """Its own mask would leave it only the devices it already holds."""
    shown = drawn.farm()

    def indices(snapshot: Snapshot) -> list[int]:
        return [s.device.index for s in snapshot.devices if s.visible and not s.device.parent]

    def inside() -> Snapshot:
        return seen_from_outside(shown)

    assert seen_from_outside(shown) is shown
    assert indices(leased(inside, desk.request)()) == [3]
