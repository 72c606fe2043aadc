"""The PTX texts that the driver compiles, and what each kernel must compute, word by word.

Data are small whole numbers, so that every sum is exact whatever the order of its parts, and the
same for all warps: the host compares whole blocks of memory.
"""

import struct
from functools import cache

from msgspec import Struct

LANES = 32
CHAINS = 16  # independent sums in a thread: they hide the latency of an addition
STEPS = 8  # additions of each chain in one round
BLOCK = 256
TILES = 8  # independent tiles in a warp
SEED = 0x1D
MOST_FP32_ROUNDS = 400_000  # 4 · STEPS · this is below 2^24: exact in 32 bits
MOST_TENSOR_ROUNDS = 1 << 19  # 8 · this is 2^22: exact also where sums are cut to 23 bits
WRONG_BYTES = (
    16  # of each word that differs: its index in 8 bytes, what was read, what it should be
)
_WORD = 0xFFFFFFFF

_BEGIN = """
    mov.u32 %th, %tid.x;
    mov.u32 %cta, %ctaid.x;
    mad.lo.u32 %id, %cta, {block}, %th;
    mov.u64 %c0, %clock64;
    mov.u64 %t0, %globaltimer;
"""
_END = """
    mul.wide.u32 %at, %id, 4;
    add.u64 %at, %at, %out;
    st.global.u32 [%at], %sum;
    mov.u64 %c1, %clock64;
    mov.u64 %t1, %globaltimer;
    setp.ne.u32 %p, %th, 0;
    @%p ret;
    mov.u32 %x, %smid;
    mul.wide.u32 %at, %cta, 4;
    add.u64 %at, %at, %marks;
    st.global.u32 [%at+16], %x;
    setp.ne.u32 %p, %cta, 0;
    @%p ret;
    sub.u64 %c1, %c1, %c0;
    sub.u64 %t1, %t1, %t0;
    st.global.u64 [%marks], %c1;
    st.global.u64 [%marks+8], %t1;
    ret;
}
"""
MARKS_BYTES = 16  # before the SM of each block: clocks and nanoseconds of the first


def _sums(kind: str, values: list[str]) -> str:
    """Adds values as whole numbers, each times its place, so that no two errors cancel."""
    lines = ["    mov.u32 %sum, 0;"]
    for place, value in enumerate(values, 1):
        lines += [f"    cvt.rzi.s32.{kind} %x, {value};"]
        lines += [f"    mad.lo.s32 %sum, %x, {place}, %sum;"]
    return "\n".join(lines)


_COMMON = """
    .reg .pred %p;
    .reg .u32 %th, %cta, %id, %x, %rounds;
    .reg .s32 %sum;
    .reg .u64 %c0, %c1, %t0, %t1, %at, %out, %marks;
"""


def _fp32() -> str:
    begins = []
    for chain in range(CHAINS):
        begins += [
            f"    mad.lo.u32 %x, %th, 3, {chain * 11 + SEED};",
            "    and.b32 %x, %x, 15;",
            "    sub.s32 %x, %x, 8;",
            f"    cvt.rn.f32.s32 %f{chain}, %x;",
            f"    mad.lo.u32 %x, %th, 7, {chain * 5 + SEED};",
            "    rem.u32 %x, %x, 9;",
            "    sub.s32 %x, %x, 4;",
            f"    cvt.rn.f32.s32 %g{chain}, %x;",
        ]
    adds = [
        f"    fma.rn.f32 %f{n}, %f{n}, %one, %g{n};" for _ in range(STEPS) for n in range(CHAINS)
    ]
    return "\n".join(
        (
            ".visible .entry andon_fp32(.param .u64 out, .param .u64 marks, .param .u32 rounds,"
            " .param .f32 one) {",
            _COMMON,
            f"    .reg .f32 %f<{CHAINS}>, %g<{CHAINS}>, %one;",
            "    ld.param.u64 %out, [out];\n    ld.param.u64 %marks, [marks];",
            "    ld.param.u32 %rounds, [rounds];\n    ld.param.f32 %one, [one];",
            _BEGIN.format(block=BLOCK),
            *begins,
            "again:",
            *adds,
            "    sub.u32 %rounds, %rounds, 1;",
            "    setp.ne.u32 %p, %rounds, 0;\n    @%p bra again;",
            _sums("f32", [f"%f{n}" for n in range(CHAINS)]),
            _END,
        )
    )


FP32_FLOP = 2 * CHAINS * STEPS
"""Of one round of one thread."""


@cache
def fp32_expected(rounds: int) -> bytes:
    """What the threads of one block must write."""
    words = []
    for thread in range(BLOCK):
        total = 0
        for chain in range(CHAINS):
            begins = ((thread * 3 + chain * 11 + SEED) & 15) - 8
            step = (thread * 7 + chain * 5 + SEED) % 9 - 4
            total += (chain + 1) * (begins + step * STEPS * rounds)
        words.append(total & _WORD)
    return struct.pack(f"<{BLOCK}I", *words)


_FILL = """
.visible .entry andon_fill(.param .u64 to, .param .u64 quads, .param .u32 seed, .param .u32 step) {
    .reg .pred %p;
    .reg .u32 %a, %b, %c, %d, %x, %y, %seed, %step;
    .reg .u64 %i, %n, %all, %at, %to;
    ld.param.u64 %to, [to];
    ld.param.u64 %n, [quads];
    ld.param.u32 %seed, [seed];
    ld.param.u32 %step, [step];
    mov.u32 %x, %ctaid.x;
    mov.u32 %y, %ntid.x;
    mul.wide.u32 %i, %x, %y;
    mov.u32 %x, %tid.x;
    cvt.u64.u32 %at, %x;
    add.u64 %i, %i, %at;
    mov.u32 %x, %nctaid.x;
    mul.wide.u32 %all, %x, %y;
again:
    setp.ge.u64 %p, %i, %n;
    @%p ret;
    cvt.u32.u64 %x, %i;
    shl.b32 %x, %x, 2;
    mad.lo.u32 %a, %x, %step, %seed;
    add.u32 %b, %a, %step;
    add.u32 %c, %b, %step;
    add.u32 %d, %c, %step;
    shl.b64 %at, %i, 4;
    add.u64 %at, %at, %to;
    st.global.v4.u32 [%at], {%a, %b, %c, %d};
    add.u64 %i, %i, %all;
    bra again;
}
"""


def _compare() -> str:
    """Compares four words a time; what differs is counted, and the first of it listed."""
    each = [
        f"""
    setp.eq.u32 %p, %g{n}, %a;
    @%p bra right{n};
    atom.global.add.u32 %x, [%found], 1;
    setp.ge.u32 %p, %x, %most;
    @%p bra right{n};
    mul.wide.u32 %at, %x, {WRONG_BYTES};
    add.u64 %at, %at, %found;
    shl.b64 %w, %i, 2;
    add.u64 %w, %w, {n};
    st.global.u64 [%at+16], %w;
    st.global.u32 [%at+24], %g{n};
    st.global.u32 [%at+28], %a;
right{n}:
    add.u32 %a, %a, %step;"""
        for n in range(4)
    ]
    head, loop = _FILL.replace("andon_fill", "andon_compare").split("again:")
    head = head.replace(
        ".param .u32 step)", ".param .u32 step, .param .u64 found, .param .u32 most)"
    ).replace(
        "    ld.param.u64 %to, [to];",
        "    .reg .u32 %g<4>, %most;\n    .reg .u64 %w, %found;\n"
        "    ld.param.u64 %to, [to];\n    ld.param.u64 %found, [found];\n"
        "    ld.param.u32 %most, [most];",
    )
    before, rest = loop.split("    add.u32 %b, %a, %step;")
    at, after = rest.split("    st.global.v4.u32")
    at = at.split("    shl.b64")[1]
    loads = "    ld.global.cs.v4.u32 {%g0, %g1, %g2, %g3}, [%at];"
    return f"{head}again:{before}    shl.b64{at}{loads}{''.join(each)}{after.split(';', 1)[1]}"


FOUND_BYTES = 16  # the count, before the list


def plain() -> str:
    """Returns the text that every card since Maxwell can run."""
    return f".version 6.0\n.target sm_50\n.address_size 64\n{_fp32()}{_FILL}{_compare()}"


class _Tensor(Struct, frozen=True):
    """The shape of a multiplication of tensor cores: its text and its data."""

    version: str
    target: str
    operation: str
    depth: int
    half: bool

    @property
    def registers(self) -> tuple[int, int]:
        return (4, 2) if self.depth == 16 else (2, 1)


_TURING = _Tensor("6.5", "sm_75", "m16n8k8.row.col.f32.f16.f16.f32", 8, half=True)
_AMPERE = _Tensor("7.0", "sm_80", "m16n8k16.row.col.f32.bf16.bf16.f32", 16, half=False)


def _shape(capability: tuple[int, int]) -> _Tensor | None:
    if capability < (7, 5):
        return None
    return _TURING if capability < (8, 0) else _AMPERE


def tensor(capability: tuple[int, int]) -> str | None:
    """Returns the text for the tensor cores of this architecture; None if it has no such test."""
    shape = _shape(capability)
    if shape is None:
        return None
    left, right = shape.registers
    tables = 2 * left + TILES * right
    a = [f"%a{n}" for n in range(left)]
    other = [f"%e{n}" for n in range(left)]
    loads = [
        f"    ld.global.u32 {name}, [%at+{4 * n}];"
        for n, name in enumerate((*a, *other, *(f"%b{n}" for n in range(TILES * right))))
    ]
    multiply = [
        f"    mma.sync.aligned.{shape.operation} {{{_four(tile)}}}, {{{', '.join(first)}}}, "
        f"{{{', '.join(f'%b{tile * right + n}' for n in range(right))}}}, {{{_four(tile)}}};"
        for first in (a, other)
        for tile in range(TILES)
    ]
    return "\n".join(
        (
            f".version {shape.version}\n.target {shape.target}\n.address_size 64",
            ".visible .entry andon_tensor(.param .u64 out, .param .u64 marks, .param .u32 rounds,"
            " .param .u64 data) {",
            _COMMON,
            f"    .reg .f32 %f<{4 * TILES}>;",
            f"    .reg .b32 %a<{left}>, %e<{left}>, %b<{TILES * right}>;",
            "    ld.param.u64 %out, [out];\n    ld.param.u64 %marks, [marks];",
            "    ld.param.u32 %rounds, [rounds];\n    ld.param.u64 %at, [data];",
            "    mov.u32 %x, %laneid;",
            f"    mul.wide.u32 %c0, %x, {4 * tables};\n    add.u64 %at, %at, %c0;",
            *loads,
            *(f"    mov.f32 %f{n}, 0f00000000;" for n in range(4 * TILES)),
            _BEGIN.format(block=BLOCK),
            "again:",
            *multiply,
            "    sub.u32 %rounds, %rounds, 1;",
            "    setp.ne.u32 %p, %rounds, 0;\n    @%p bra again;",
            _sums("f32", [f"%f{n}" for n in range(4 * TILES)]),
            _END,
        )
    )


def _four(tile: int) -> str:
    return ", ".join(f"%f{4 * tile + n}" for n in range(4))


def tensor_flop(capability: tuple[int, int]) -> int:
    """Of one round of one warp."""
    shape = _shape(capability)
    return 0 if shape is None else 2 * TILES * 2 * 16 * 8 * shape.depth


def _left(row: int, place: int) -> int:
    return (row * 5 + place * 3 + SEED) % 16 - 8


def _right(tile: int, place: int, column: int) -> int:
    return (tile * 7 + place * 11 + column * 5 + SEED) % 16 - 8


def _other(row: int, place: int) -> int:
    """The second left side: it takes back the first but for one column, so that sums stay small
    while every round can be counted in them."""
    return (place == 0) - _left(row, place)


@cache
def tensor_data(capability: tuple[int, int]) -> bytes:
    """Returns the registers of each lane, as the layout of the instruction has them."""
    shape = _shape(capability)
    assert shape is not None
    words: list[int] = []
    for lane in range(LANES):
        group, pair = lane >> 2, (lane & 3) * 2
        halves = range(0, shape.depth, 8)
        for value in (_left, _other):
            words += [
                _packed(value(row, at + pair), value(row, at + pair + 1), shape.half)
                for at in halves
                for row in (group, group + 8)
            ]
        words += [
            _packed(_right(tile, at + pair, group), _right(tile, at + pair + 1, group), shape.half)
            for tile in range(TILES)
            for at in halves
        ]
    return struct.pack(f"<{len(words)}I", *words)


def _packed(low: int, high: int, half: bool) -> int:
    return _bits(low, half) | _bits(high, half) << 16


def _bits(value: int, half: bool) -> int:
    if half:
        return int(struct.unpack("<H", struct.pack("<e", value))[0])
    return int(struct.unpack("<I", struct.pack("<f", value))[0]) >> 16


@cache
def tensor_expected(rounds: int) -> bytes:
    """What the threads of one warp must write: each round adds the first row of the right side."""
    words = []
    for lane in range(LANES):
        pair, total = (lane & 3) * 2, 0
        for place in range(4 * TILES):
            total += (place + 1) * rounds * _right(place // 4, 0, pair + place % 2)
        words.append(total & _WORD)
    return struct.pack(f"<{LANES}I", *words)
