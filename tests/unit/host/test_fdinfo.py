"""What the kernel says of a client: documented keys, two looks, and texts that say nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andon.drivers.shared.rules.fdinfo import (
    DrmClient,
    DrmEngine,
    Region,
    kind,
    later,
    parse,
    shares,
    together,
)
from andon.model.device import ProcessKind
from tests.constructed.amd import fdinfo as amdgpu_text
from tests.constructed.intel import i915_fdinfo, xe_fdinfo

KEYS = st.sampled_from(
    [
        "drm-driver", "drm-pdev", "drm-client-id", "drm-engine-", "drm-engine-gfx",
        "drm-engine-capacity-gfx", "drm-cycles-rcs", "drm-total-cycles-rcs", "drm-memory-vram",
        "drm-resident-vram", "drm-total-", "drm-shared-gtt", "drm-", "pos",
    ]
)  # fmt: skip
VALUES = st.one_of(
    st.text(), st.integers().map(str), st.integers(0, 10**30).map(lambda n: f"{n} KiB")
)
LINES = st.lists(st.tuples(KEYS, VALUES).map(lambda line: f"{line[0]}:\t{line[1]}"))


def parsed(text: str) -> DrmClient:
    client = parse(text)
    assert client is not None
    return client


def test_an_amdgpu_client_is_read_whole() -> None:
    client = parsed(amdgpu_text("0000:03:00.0", 7, 2048, 4, gfx=1000))
    assert client.key == ("0000:03:00.0", 7)
    assert client.driver == "amdgpu"
    assert client.engines == {"gfx": DrmEngine(busy_nanoseconds=1000)}
    assert client.regions["vram"] == Region(2048 * 1024, 2048 * 1024, 2048 * 1024)
    assert client.regions["gtt"].held_bytes == 4096


def test_an_xe_client_counts_cycles_and_its_capacities_are_no_engines_of_their_own() -> None:
    client = parsed(xe_fdinfo(9, "23992 KiB", 7655183225, rcs=28257900, vcs=0))
    assert client.engines["rcs"] == DrmEngine(cycles=28257900, total_cycles=7655183225)
    assert client.engines["vcs"] == DrmEngine(cycles=0, total_cycles=7655183225, capacity=2)
    assert set(client.engines) == {"rcs", "vcs"}


def test_total_cycles_are_no_memory() -> None:
    assert "cycles-rcs" not in parsed(xe_fdinfo(9, "1 KiB", 10, rcs=1)).regions


@pytest.mark.parametrize(
    ("value", "expected"),
    [("12", 12), ("12 KiB", 12288), ("3 MiB", 3 * 1024**2), ("1 GiB", 1024**3), ("5 ns", 5)],
)
def test_amounts_have_the_documented_units(value: str, expected: int) -> None:
    client = parsed(f"drm-driver:\tx\ndrm-client-id:\t1\ndrm-memory-vram:\t{value}\n")
    assert client.regions["vram"].held_bytes == expected


def test_what_is_resident_goes_before_what_older_kernels_say() -> None:
    assert Region(resident_bytes=0, total_bytes=9, memory_bytes=5).held_bytes == 0
    assert Region(total_bytes=9, memory_bytes=5).held_bytes == 5
    assert Region(total_bytes=9).held_bytes == 9


def test_a_text_without_a_driver_or_a_client_tells_of_none() -> None:
    assert parse("pos:\t0\nflags:\t02\n") is None
    assert parse("drm-driver:\ti915\n") is None
    assert parse("drm-client-id:\t4\n") is None


def test_an_address_that_is_none_is_not_taken_for_one() -> None:
    assert parsed("drm-driver:\tx\ndrm-client-id:\t1\ndrm-pdev:\t../../etc\n").pci is None


@given(st.text())
def test_no_text_makes_it_raise(text: str) -> None:
    parse(text)


@given(LINES, LINES, st.floats(allow_nan=False))
def test_no_mixture_of_keys_makes_anything_raise(
    first: list[str], second: list[str], seconds: float
) -> None:
    head = ["drm-driver:\tx", "drm-client-id:\t1"]
    before, after = parse("\n".join(first + head)), parse("\n".join(second + head))
    assert before is not None
    assert after is not None
    newest = later(before, after)
    assert kind(newest) in ProcessKind
    assert all(0.0 <= share <= 1.0 for share in shares(before, newest, seconds).values())


def test_a_share_is_time_over_time_and_capacity() -> None:
    before = parsed(i915_fdinfo(1, 0, render=1_000_000_000, video=0))
    after = parsed(i915_fdinfo(1, 0, render=1_500_000_000, video=1_000_000_000))
    assert shares(before, after, 1.0) == {"render": 0.5, "video": 0.5}


def test_a_share_of_cycles_needs_no_clock() -> None:
    before = parsed(xe_fdinfo(1, "0", 1000, ccs=100, vcs=0))
    after = parsed(xe_fdinfo(1, "0", 3000, ccs=600, vcs=4000))
    assert shares(before, after, 99.0) == {"ccs": 0.25, "vcs": 1.0}


def test_an_engine_that_was_not_listed_had_done_nothing() -> None:
    before = parsed(amdgpu_text("0000:03:00.0", 1, 0, 0))
    after = parsed(amdgpu_text("0000:03:00.0", 1, 0, 0, compute=250_000_000))
    assert shares(before, after, 1.0) == {"compute": 0.25}


def test_a_value_that_steps_back_stays_at_the_largest() -> None:
    before = parsed(i915_fdinfo(1, 0, render=900))
    back = later(before, parsed(i915_fdinfo(1, 10, render=400)))
    assert back.engines["render"].busy_nanoseconds == 900
    assert back.regions["system0"].held_bytes == 10240
    assert shares(before, back, 1.0) == {"render": 0.0}
    again = later(back, parsed(i915_fdinfo(1, 0, render=1000)))
    assert again.engines["render"].busy_nanoseconds == 1000


def test_another_client_starts_from_its_own_values() -> None:
    newer = parsed(i915_fdinfo(2, 0, render=1))
    assert later(parsed(i915_fdinfo(1, 0, render=900)), newer) == newer


def test_shares_of_several_clients_fill_an_engine_and_no_more() -> None:
    assert together([{"gfx": 0.25}, {"gfx": 0.5, "dec": 0.125}]) == {"gfx": 0.75, "dec": 0.125}
    assert together([{"gfx": 0.7}, {"gfx": 0.7}]) == {"gfx": 1.0}


def test_a_client_is_what_it_has_spent_more_on() -> None:
    assert kind(parsed(amdgpu_text("0000:03:00.0", 1, 0, 0, gfx=5, compute=6))) == "compute"
    assert kind(parsed(amdgpu_text("0000:03:00.0", 1, 0, 0, gfx=6, compute=5))) == "graphics"
    assert kind(parsed(xe_fdinfo(1, "0", 10, ccs=1, rcs=0))) == "compute"
    assert kind(parsed(amdgpu_text("0000:03:00.0", 1, 0, 0))) == "graphics"
