"""Seeded chance: odd values, odd text, odd bytes, and mutations of what is valid.

Every round has a generator of its own, made of the seed, the part and the number of the round: the
same seed plays the same rounds, however many of them fit into the time.
"""

import json
import math
import os
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

SEED = int(os.environ.get("ANDON_FUZZ_SEED", "12"))
SECONDS = float(os.environ.get("ANDON_FUZZ_SECONDS", "60"))
PARTS = 6
"""Books, packets, bodies, documents, settings and environments share the time."""

NUMBERS: tuple[Any, ...] = (
    0, 1, -1, 2, 255, 256, 4095, 65535, 65536, 2**22, 2**31 - 1, 2**31, -(2**31), 2**32, 2**53,
    2**62, 2**63 - 1, 2**63, -(2**63), 2**64, 10**30, 10**400, 0.0, -0.0, 0.1, 1e-320, 1e308,
    -1e308, math.inf, -math.inf, math.nan, 1700000000.5, 32503680001.0, True, False,
)  # fmt: skip
TEXTS: tuple[str, ...] = (
    "", " ", "0", "-1", "1e9", "NaN", "null", "true", "/", ".", "..", "../../etc/passwd", "*", "%",
    "%00", "%s%n", "\x00", "\n", "\r\n", "\x1b[31mred\x1b[0m", "\x9b31m", "\x07", "\u202eabc",
    "\ud800", "\udcff", "e\u0301" * 50, "\U0001f525", "a" * 129, "a" * 300, "a" * 5000, "9" * 5000,
    "://a:" * 400, "' OR 1=1 --", "<script>", "=cmd|'/C calc'!A0", "${HOME}", "$(id)", "`id`", "{}",
    "[]", "{{7*7}}", "GPU-0", "SIM-0", "host", "1970-01-01", "-7d", "1h", "99999999999999h", "inf",
    "0x10", "1_0", "\u0663",
)  # fmt: skip
DEEPEST = 2


class Chance(random.Random):
    """A generator with an eye for trouble."""

    def odd(self, depth: int = 0) -> Any:
        """Any JSON value, and what JSON of Python allows besides."""
        kind = self.randrange(10)
        if kind < 4:
            return self.choice(NUMBERS)
        if kind < 7:
            return self.text()
        if kind == 7 or depth >= DEEPEST:
            return self.choice((None, [], {}, [[]], [None], {"": None}, True))
        if kind == 8:
            return [self.odd(depth + 1) for _ in range(self.randrange(6))]
        return {self.text(): self.odd(depth + 1) for _ in range(self.randrange(5))}

    def text(self) -> str:
        if self.random() < 0.7:
            return self.choice(TEXTS)
        points = (
            self.choice((31, 127, 0x24F, 0xD7FF, 0x10FFFF)) for _ in range(self.randrange(40))
        )
        return "".join(chr(self.randrange(point)) for point in points)

    def junk(self, most: int = 2000) -> bytes:
        return self.randbytes(self.choice((0, 1, 2, 7, 64, self.randrange(most))))

    def changed(self, value: Any, odds: float = 0.15) -> Any:
        """The same shape with some of its values replaced, taken out or added."""
        if self.random() < odds:
            return self.odd()
        if isinstance(value, dict):
            kept = {k: self.changed(v, odds) for k, v in value.items() if self.random() > odds / 5}
            if self.random() < odds:
                kept[self.text()] = self.odd()
            return kept
        if isinstance(value, list):
            kept_items = [self.changed(item, odds) for item in value]
            return kept_items * self.choice((0, 2, 300)) if self.random() < odds / 5 else kept_items
        return value

    def one_field(self, value: dict[str, Any]) -> dict[str, Any]:
        """Valid but for one field, at any depth: what a careful attacker writes."""
        copied = json.loads(json.dumps(value))
        places = list(_places(copied))
        if not places:  # any object will do there: one with a field that no one knows
            return {self.text()[:50]: self.odd()}
        holder, key = self.choice(places)
        number = isinstance(holder[key], int | float) and self.random() < 0.6
        holder[key] = self.choice(NUMBERS) if number else self.odd()
        return dict(copied)

    def spoiled(self, content: bytes) -> bytes:
        """The same bytes with one of the usual accidents."""
        if not content:
            return self.junk(50)
        place = self.randrange(len(content))
        return self.choice(
            (
                content[:place],
                content[place:],
                content[:place] + self.junk(20) + content[place + 1 :],
                content + content,
                content + self.junk(100),
                b"\xef\xbb\xbf" + content,
                content.replace(b" ", b"\x00"),
            )
        )

    def json_bytes(self, value: Any) -> bytes:
        """As a hostile client would write it: NaN, infinity and lone surrogates included."""
        plain = json.dumps(value, ensure_ascii=self.random() < 0.5, default=str)
        return plain.encode("utf-8", "surrogatepass")


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in pairs:
        yield value, key
        if isinstance(item, dict | list):
            yield from _places(item)


def nested(depth: int) -> bytes:
    return b'{"a":' * depth + b"0" + b"}" * depth


LEAST_ROUNDS = 5


def rounds(part: str, seed: int, seconds: float, play: Callable[[Chance, int], None]) -> int:
    """Play rounds until the time is over, but some on the slowest machine too; what fails is told
    with the seed that repeats it."""
    end, number = time.monotonic() + seconds, 0
    while time.monotonic() < end or number < LEAST_ROUNDS:
        try:
            play(Chance(f"{seed}/{part}/{number}"), number)
        except Exception as exc:
            raise AssertionError(
                f"fuzzing {part}: round {number} failed: {type(exc).__name__}: {exc}\n"
                f"again: ANDON_FUZZ_SEED={seed} python -m pytest tests/fuzz -k {part}"
            ) from exc
        number += 1
    return number
