"""The texts of the kernels, and that what they must compute is right by another way of counting."""

import struct

from andon.checks.rules import kernels
from tests.support.rows import rows


def unpacked(word: int, half: bool) -> tuple[int, int]:
    """Two numbers of a register."""
    if half:
        low, high = struct.unpack("<ee", struct.pack("<I", word))
    else:
        low, high = (
            struct.unpack("<f", struct.pack("<I", bits))[0]
            for bits in ((word & 0xFFFF) << 16, word & 0xFFFF0000)
        )
    return int(low), int(high)


def multiplied(capability: tuple[int, int], rounds: int) -> list[list[int]]:
    """The four sums of each tile of each lane, from the registers that the lanes load: the layouts
    are those of the PTX manual for m16n8k8 (f16) and m16n8k16 (bf16)."""
    half, depth = capability < (8, 0), 8 if capability < (8, 0) else 16
    left, right = (2, 1) if half else (4, 2)
    each = 2 * left + kernels.TILES * right
    words = struct.unpack(f"<{32 * each}I", kernels.tensor_data(capability))
    sides = [[[0] * depth for _ in range(16)] for _ in range(2)]
    tiles = [[[0] * 8 for _ in range(depth)] for _ in range(kernels.TILES)]
    for lane in range(32):
        own, group, pair = words[lane * each : (lane + 1) * each], lane >> 2, (lane & 3) * 2
        for side in range(2):
            for number in range(left):
                row, column = group + 8 * (number % 2), pair + 8 * (number // 2)
                sides[side][row][column : column + 2] = unpacked(own[side * left + number], half)
        for tile in range(kernels.TILES):
            for number in range(right):
                at = pair + 8 * number
                low, high = unpacked(own[2 * left + tile * right + number], half)
                tiles[tile][at][group], tiles[tile][at + 1][group] = low, high
    sums = []
    for lane in range(32):
        group, pair, found = lane >> 2, (lane & 3) * 2, []
        for tile in range(kernels.TILES):
            for number in range(4):
                row, column = group + 8 * (number // 2), pair + number % 2
                found.append(rounds * sum(
                    side[row][k] * tiles[tile][k][column] for side in sides for k in range(depth)
                ))  # fmt: skip
        sums.append(found)
    return sums


@rows("capability", [(7, 5), (8, 0), (9, 0)])
def test_what_tensor_cores_must_write_is_the_product_of_their_registers(
    capability: tuple[int, int],
) -> None:
    for rounds in (1, 7, kernels.MOST_TENSOR_ROUNDS):
        expected = struct.unpack("<32I", kernels.tensor_expected(rounds))
        for lane, sums in enumerate(multiplied(capability, rounds)):
            assert max(map(abs, sums)) < 2**23, "every sum is exact"
            word = sum((place + 1) * value for place, value in enumerate(sums)) % 2**32
            assert expected[lane] == word


def test_what_the_lanes_must_write_is_what_they_add_up() -> None:
    for rounds in (1, 3):
        expected = struct.unpack("<256I", kernels.fp32_expected(rounds))
        for thread in (0, 1, 31, 200, 255):
            sums = [
                ((thread * 3 + n * 11 + kernels.SEED) & 15) - 8.0 for n in range(kernels.CHAINS)
            ]
            for _ in range(rounds * kernels.STEPS):
                sums = [
                    value * 1.0 + ((thread * 7 + n * 5 + kernels.SEED) % 9 - 4)
                    for n, value in enumerate(sums)
                ]
            total = sum((n + 1) * int(value) for n, value in enumerate(sums))
            assert expected[thread] == total % 2**32


def test_no_sum_becomes_too_large_to_be_exact() -> None:
    assert 8 + 4 * kernels.STEPS * kernels.MOST_FP32_ROUNDS < 2**24


def test_every_round_changes_what_is_written() -> None:
    assert kernels.fp32_expected(7) != kernels.fp32_expected(8)
    assert kernels.tensor_expected(7) != kernels.tensor_expected(8)


@rows(
    "capability, target",
    [((5, 0), None), ((7, 0), None), ((7, 5), "sm_75"), ((8, 0), "sm_80"), ((8, 9), "sm_80"),
     ((9, 0), "sm_80"), ((12, 1), "sm_80")],
)  # fmt: skip
def test_each_architecture_has_its_text(capability: tuple[int, int], target: str | None) -> None:
    text = kernels.tensor(capability)
    if target is None:
        assert text is None
        assert kernels.tensor_flop(capability) == 0
    else:
        assert text is not None
        assert f".target {target}\n" in text


def test_no_text_is_for_one_architecture_alone() -> None:
    texts = [kernels.plain(), kernels.tensor((7, 5)), kernels.tensor((9, 0))]
    for text in texts:
        assert text is not None
        assert "sm_90a" not in text
        assert text.count("{") == text.count("}")
