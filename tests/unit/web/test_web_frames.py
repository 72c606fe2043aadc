"""What a live client may send, packet by packet."""

import json
import random

from engineio import packet as frames
from socketio import packet as packets

from andon.web.live.frames import (
    EVENTS,
    MAX_MESSAGE_BYTES,
    MOST_FRAMES,
    RESERVED,
    MalformedFrame,
    check_body,
    check_frame,
)
from tests.support.rows import rows

GOOD = (
    "40", "40{}", '40{"token":"x"}', "40null", '40"x"', "41", "1", "3", '42["subscribe"]',
    '42["subscribe","snapshot"]', '420["unsubscribe","snapshot"]', '42123456["request_gpu_update"]',
    '42["subscribe",{"deep":["nonsense"]}]', '42 ["subscribe"]', '42["request_gpu_update",12]',
)  # fmt: skip


@rows("frame", [*GOOD, "2probe", "5"])
def test_what_clients_send_passes(frame: str) -> None:
    assert check_frame(frame) is None


@rows("frame", GOOD)
def test_what_clients_send_passes_in_a_request(frame: str) -> None:
    assert check_body(frame.encode()) == []


@rows("name", sorted(RESERVED))
@rows("form", ['42["{}"]', '42["{}",{{}}]', '427["{}",1,2]', '42 [ "{}" ]'])
def test_reserved_events_are_refused(name: str, form: str) -> None:
    assert check_frame(form.format(name)) is MalformedFrame.RESERVED
    escaped = "".join(f"\\u{ord(letter):04x}" for letter in name)
    assert check_frame(form.format(escaped)) is MalformedFrame.RESERVED


def test_no_reserved_name_is_an_event() -> None:
    assert not EVENTS & RESERVED


@rows(
    ("frame", "wrong"),
    [
        (b"42", MalformedFrame.BINARY),
        (None, MalformedFrame.BINARY),
        ("bAAAA", MalformedFrame.BINARY),
        ("", MalformedFrame.FRAME),
        ("0", MalformedFrame.FRAME),
        ("2", MalformedFrame.FRAME),
        ("6", MalformedFrame.FRAME),
        ("\u0664", MalformedFrame.FRAME),
        ("4", MalformedFrame.PACKET),
        ("4\0", MalformedFrame.PACKET),
        ("42", MalformedFrame.PACKET),
        ("42[]", MalformedFrame.PACKET),
        ("42{}", MalformedFrame.PACKET),
        ("42[1]", MalformedFrame.PACKET),
        ("43[]", MalformedFrame.PACKET),
        ("44{}", MalformedFrame.PACKET),
        ('451-["subscribe",{"_placeholder":true,"num":0}]', MalformedFrame.PACKET),
        ("405{}", MalformedFrame.PACKET),
        ("41{}", MalformedFrame.PACKET),
        ("42" + "9" * 200 + '["subscribe"]', MalformedFrame.PACKET),
        ("40/admin,", MalformedFrame.NAMESPACE),
        ('42/admin,["subscribe"]', MalformedFrame.NAMESPACE),
        ("40{", MalformedFrame.PACKET),
        ('42["subscribe"', MalformedFrame.JSON),
        ('42["subscribe",NaN]', MalformedFrame.JSON),
        ('42["subscribe",' + "9" * 101 + "]", MalformedFrame.JSON),
        ('42["subscribe",' + "9" * 5000 + "]", MalformedFrame.JSON),
        ("42" + "[" * 20_000, MalformedFrame.JSON),
        ('42["no such event"]', MalformedFrame.EVENT),
        ('42["subscribe",1,2]', MalformedFrame.ARGUMENTS),
        ("4" * (MAX_MESSAGE_BYTES + 1), MalformedFrame.SIZE),
    ],
)
def test_everything_else_is_refused_with_its_kind(frame: object, wrong: MalformedFrame) -> None:
    assert check_frame(frame) is wrong


@rows(
    ("body", "wrong"),
    [
        (b"", [MalformedFrame.FRAME]),
        (b"d=40", [MalformedFrame.FRAME]),
        (b"2probe", [MalformedFrame.FRAME]),
        (b"\xff\xfe", [MalformedFrame.TEXT]),
        (b"1\x1e40", [MalformedFrame.FRAME]),
        (b"\x1e".join([b"3"] * (MOST_FRAMES + 1)), [MalformedFrame.COUNT]),
        (b'42["connect"]\x1e3\x1e42', [MalformedFrame.RESERVED, MalformedFrame.PACKET]),
        (b"4" * (MAX_MESSAGE_BYTES + 1), [MalformedFrame.SIZE]),
    ],
)
def test_a_request_is_refused_for_any_of_its_frames(
    body: bytes, wrong: list[MalformedFrame]
) -> None:
    assert check_body(body) == wrong


def test_what_passes_means_the_same_to_the_library() -> None:
    """Our reading and the library's may not differ: a name that only it sees could be any."""
    chance = random.Random(12)
    passed = 0
    for _ in range(4000):
        frame = _changed(chance, chance.choice([*GOOD, '42["connect"]', "451-[]", "40/x,{}"]))
        if check_frame(frame) is not None or not frame.startswith("4"):
            continue
        passed += 1
        found = packets.Packet(encoded_packet=frames.Packet(encoded_packet=frame).data)
        assert found.namespace is None
        assert found.attachment_count == 0
        assert found.packet_type in (packets.CONNECT, packets.DISCONNECT, packets.EVENT)
        if found.packet_type == packets.EVENT:
            assert found.data[0] in EVENTS
            assert len(found.data) <= 2
            json.dumps(found.data)
    assert passed > 200


def _changed(chance: random.Random, frame: str) -> str:
    """Up to three letters put in, taken out or exchanged."""
    for _ in range(chance.randrange(4)):
        place = chance.randrange(len(frame) + 1)
        put = chance.choice(["", *'0123456789-/,?[]{}":b\\\0\x1e\u0663\u00b2 nN'])
        frame = frame[:place] + put + frame[place + chance.randrange(2) :]
    return frame
