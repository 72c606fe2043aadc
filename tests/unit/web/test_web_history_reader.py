"""The past is read in a few threads: a bounded queue, the same question once, right keys first."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from fastapi import Request

from andon.errors import Gone, Invalid
from andon.web.history_reader import Busy, HistoryReader
from andon.web.transport.auth import TRUSTED
from andon.web.transport.headers import Message


def asked(trusted: bool = False, peer: str = "127.0.0.1") -> tuple[Request, Callable[[], None]]:
    """A request, and its caller's way to leave."""
    left = asyncio.Event()

    async def receive() -> Message:
        await left.wait()
        return {"type": "http.disconnect"}

    scope: Any = {"type": "http", "client": (peer, 1), "headers": [], TRUSTED: trusted}
    return Request(scope, receive), left.set


class Work:
    """Jobs that wait until they may go on, and write down that they ran."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.ran: list[str] = []

    def named(self, name: str) -> Callable[[], bytes]:
        def work() -> bytes:
            self.go.wait()
            self.ran.append(name)
            return name.encode()

        return work


def test_the_same_question_is_read_once_for_all() -> None:
    work = Work()

    async def play() -> list[bytes]:
        reading = HistoryReader(threads=1)
        asks = [reading.read(asked()[0], "a", work.named("a")) for _ in range(200)]
        waiting = asyncio.gather(*asks)
        await asyncio.sleep(0)
        work.go.set()
        return await waiting

    assert asyncio.run(play()) == [b"a"] * 200
    assert work.ran == ["a"]


def test_one_peer_has_its_share_and_the_others_have_theirs() -> None:
    work = Work()

    async def play() -> None:
        reading = HistoryReader(threads=1, most_waiting=8, share=3)
        waiting = [
            asyncio.ensure_future(
                reading.read(asked(peer=f"127.0.0.{n}")[0], n, work.named(f"{n}"))
            )
            for n in range(3)
        ]
        await asyncio.sleep(0)
        with pytest.raises(Busy, match="from this address"):
            await reading.read(asked(peer="::1")[0], "more", work.named("more"))
        for number in range(4):
            other, _ = asked(peer=f"10.0.0.{number}")
            name = f"other {number}"
            waiting.append(asyncio.ensure_future(reading.read(other, name, work.named(name))))
        waiting.append(asyncio.ensure_future(reading.read(asked(True)[0], "o", work.named("o"))))
        waiting.append(asyncio.ensure_future(reading.read(asked(True)[0], "p", work.named("p"))))
        await asyncio.sleep(0)
        with pytest.raises(Busy, match="too many"):
            await reading.read(asked(True)[0], "last", work.named("last"))
        work.go.set()
        await asyncio.gather(*waiting)

    asyncio.run(play())
    assert work.ran[:3] == ["0", "o", "p"]  # right keys come first


def test_who_leaves_before_its_turn_is_worked_for_no_longer() -> None:
    work = Work()

    async def play() -> None:
        reading = HistoryReader(threads=1, share=2)
        first = asyncio.ensure_future(reading.read(asked()[0], "first", work.named("first")))
        request, leave = asked()
        second = asyncio.ensure_future(reading.read(request, "second", work.named("second")))
        await asyncio.sleep(0)
        leave()
        with pytest.raises(Gone):
            await second
        third = asyncio.ensure_future(reading.read(asked()[0], "third", work.named("third")))
        await asyncio.sleep(0)
        work.go.set()
        assert (await first, await third) == (b"first", b"third")

    asyncio.run(play())
    assert work.ran == ["first", "third"]


def test_who_leaves_while_it_is_read_spoils_nothing() -> None:
    work = Work()

    async def play() -> None:
        reading = HistoryReader(threads=1)
        request, leave = asked()
        gone = asyncio.ensure_future(reading.read(request, "a", work.named("a")))
        await asyncio.sleep(0)
        leave()
        with pytest.raises(Gone):
            await gone
        work.go.set()
        assert await reading.read(asked()[0], "b", work.named("b")) == b"b"

    asyncio.run(play())


def test_a_mistake_is_told_to_all_who_asked() -> None:
    def wrong() -> bytes:
        raise Invalid("no", hint="yes")

    async def play() -> list[Any]:
        reading = HistoryReader()
        asks = [reading.read(asked()[0], "a", wrong) for _ in range(3)]
        return await asyncio.gather(*asks, return_exceptions=True)

    assert [type(one) for one in asyncio.run(play())] == [Invalid] * 3


@pytest.mark.parametrize("leaves", [False, True])
def test_a_right_key_moves_a_question_that_waits_to_the_front(leaves: bool) -> None:
    work = Work()

    async def play() -> None:
        reading = HistoryReader(threads=1)
        asks = [reading.read(asked()[0], name, work.named(name)) for name in "abcd"]
        waiting = [asyncio.ensure_future(one) for one in asks]
        await asyncio.sleep(0)
        request, leave = asked(trusted=True)
        owner = asyncio.ensure_future(reading.read(request, "d", work.named("d")))
        await asyncio.sleep(0)
        if leaves:
            waiting.pop().cancel()
            leave()
            with pytest.raises(Gone):
                await owner
        work.go.set()
        await asyncio.gather(*waiting)
        assert not reading._jobs
        assert not reading._of_peers

    asyncio.run(play())
    assert work.ran == (["a", "b", "c"] if leaves else ["a", "d", "b", "c"])
