"""Headers that are added to an answer."""

import asyncio

from andon.web.transport.headers import Message, shared_with


def test_what_an_answer_depends_on_is_said_beside_what_it_says_itself() -> None:
    """Else a cache would give the answer for one origin to a page of another."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    own = [(b"vary", b"Accept-Encoding"), (b"x-frame-options", b"DENY")]
    start = {"type": "http.response.start", "status": 200, "headers": own}

    async def answer() -> None:
        await shared_with("http://board.example", send)(start)

    asyncio.run(answer())
    headers = sent[0]["headers"]
    assert [value for name, value in headers if name == b"vary"] == [b"Accept-Encoding", b"Origin"]
    assert [name for name, _ in headers].count(b"x-frame-options") == 1
