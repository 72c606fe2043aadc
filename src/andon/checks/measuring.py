"""The parts of a check on one card: each measures, compares every result, and reports in lines."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from statistics import median
from typing import Any

from andon.checks.cuda import (
    OUT_OF_MEMORY,
    Cuda,
    CudaError,
    Memory,
    copy_down,
    copy_inside,
    copy_up,
    f32,
    host_content,
    set_host,
    u32,
    u64,
    wrong_entries,
)
from andon.checks.rules import kernels
from andon.checks.rules.plan import (
    ADDRESSED,
    CHUNK_BYTES,
    COPY_BYTES,
    LAUNCH_SECONDS,
    LEAST_CHUNK_BYTES,
    PATTERNS,
    PINNED_BYTES,
    CheckPlan,
    next_rounds,
)

Emit = Callable[..., None]
LISTED = 64  # wrong words of a part
FIRST_ROUNDS = 64
WARP_BLOCKS = 2  # of tensor work on an SM: 16 warps with 8 tiles each leave no pause
FILL_BLOCKS = 8


class CardWork:
    """One card and the kernels that were compiled for it."""

    def __init__(self, cuda: Cuda, facts: dict[str, Any], emit: Emit) -> None:
        self.cuda, self.emit, self.sms = cuda, emit, facts["sms"] or 1
        self.capability = (facts["major"] or 0, facts["minor"] or 0)
        self.per_sm = max(1, (facts["threads_per_sm"] or 1024) // kernels.BLOCK)
        module = cuda.load(kernels.plain())
        self._fp32, self._fill, self._compare = (
            cuda.function(module, f"andon_{name}") for name in ("fp32", "fill", "compare")
        )
        text = kernels.tensor(self.capability)
        self._tensor, self._registers = None, Memory(0, 0)
        if text is not None:
            content = kernels.tensor_data(self.capability)
            self._tensor = cuda.function(cuda.load(text), "andon_tensor")
            self._registers = cuda.allocate(len(content))
            cuda.write(self._registers, content)

    @property
    def has_tensor(self) -> bool:
        return self._tensor is not None

    # Arithmetic.

    def fp32(self, seconds: float) -> None:
        """Adds in all lanes."""
        blocks = self.sms * self.per_sm
        flop = kernels.FP32_FLOP * blocks * kernels.BLOCK

        def expected(rounds: int) -> bytes:
            return kernels.fp32_expected(rounds) * blocks

        last = [f32(1.0)]
        most = kernels.MOST_FP32_ROUNDS
        self._arithmetic("fp32", self._fp32, blocks, last, flop, expected, most, seconds)

    def tensor(self, seconds: float) -> None:
        """Multiplies small matrices in all tensor cores."""
        if self._tensor is None:
            self.emit("skip", part="tensor", reason="no tensor test for this architecture")
            return
        blocks = self.sms * WARP_BLOCKS
        warps = blocks * kernels.BLOCK // kernels.LANES

        def expected(rounds: int) -> bytes:
            return kernels.tensor_expected(rounds) * warps

        flop, most = kernels.tensor_flop(self.capability) * warps, kernels.MOST_TENSOR_ROUNDS
        last = [u64(self._registers.address)]
        self._arithmetic("tensor", self._tensor, blocks, last, flop, expected, most, seconds)

    def _arithmetic(
        self, part: str, function: Any, blocks: int, last: list[Any], flop: int,
        expected: Callable[[int], bytes], most: int, seconds: float,
    ) -> None:  # fmt: skip
        """Launches again and again, and compares what every thread wrote each time."""
        words = blocks * kernels.BLOCK
        rates, clocks, wrong, examined, rounds = list[float](), list[float](), 0, 0, FIRST_ROUNDS
        begun = None
        with (
            self.part(part),
            self.cuda.allocated(4 * words) as out,
            self.cuda.allocated(kernels.MARKS_BYTES + 4 * blocks) as marks,
        ):
            values = [u64(out.address), u64(marks.address), u32(rounds), *last]
            while begun is None or time.monotonic() - begun < seconds:
                values[2] = u32(rounds)
                spent = list[float]()
                with self.cuda.timed(spent):
                    self.cuda.launch(function, blocks, kernels.BLOCK, values)
                raw, should = self.cuda.read(out, 4 * words), expected(rounds)
                examined += words
                if raw != should:
                    wrong += self._differing(part, raw, should, marks, blocks)
                full = spent[0] >= LAUNCH_SECONDS / 2 or rounds == most
                if full and begun is None:
                    begun = time.monotonic()  # what came before set the length of a launch
                elif full:
                    rates.append(flop * rounds / spent[0])
                    clocks += self._clock(marks)
                rounds = next_rounds(rounds, spent[0], most)
                self.emit("tick", part=part)
            self.emit(
                "end", part=part, value=median(rates or [flop * rounds / spent[0]]),
                clock_mhz=median(clocks) if clocks else None, examined=examined, wrong=wrong,
            )  # fmt: skip

    def _clock(self, marks: Memory) -> list[float]:
        """Returns the clock of one SM during the launch, as that counted it itself."""
        raw = self.cuda.read(marks, kernels.MARKS_BYTES)
        spent, nanoseconds = int.from_bytes(raw[:8], "little"), int.from_bytes(raw[8:], "little")
        return [1000.0 * spent / nanoseconds] if nanoseconds else []

    def _differing(self, part: str, raw: bytes, should: bytes, marks: Memory, blocks: int) -> int:
        sms = self.cuda.read(marks, kernels.MARKS_BYTES + 4 * blocks)[kernels.MARKS_BYTES :]
        wrong = [at for at in range(0, len(raw), 4) if raw[at : at + 4] != should[at : at + 4]]
        listed = [
            {
                "at": at // 4,
                "got": int.from_bytes(raw[at : at + 4], "little"),
                "expected": int.from_bytes(should[at : at + 4], "little"),
                "sm": int.from_bytes(sms[(b := at // 4 // kernels.BLOCK * 4) : b + 4], "little"),
            }
            for at in wrong[:LISTED]
        ]
        self.emit("wrong", part=part, words=listed)
        return len(wrong)

    # Memory.

    def memory(self, seconds: float, free_bytes: int) -> None:
        """Copies inside the card."""
        size = max(4096, min(COPY_BYTES, free_bytes // 4) // 4096 * 4096)
        rates = list[float]()
        with self.part("memory"), self.cuda.allocated(2 * size) as both:
            self.fill(both.address, size, 1, ADDRESSED[0][1])
            until = time.monotonic() + seconds
            while not rates or time.monotonic() < until:
                spent = list[float]()
                with self.cuda.timed(spent):
                    copy_inside(self.cuda, both.address + size, both.address, size)
                rates.append(2 * size / spent[0])
                self.emit("tick", part="memory")
            wrong = self.compare("memory", both.address + size, size, 1, ADDRESSED[0][1], 0)
            self.emit("end", part="memory", value=median(rates), examined=size, wrong=wrong)

    def patterns(self, plan: CheckPlan, bytes_to_test: int) -> None:
        """Writes and compares all memory that is free, but a spare."""
        patterns = (*PATTERNS, *(ADDRESSED if plan.addressed else ()))
        with self.part("patterns"), ExitStack() as stack:
            chunks = list(self._chunks(bytes_to_test, stack))
            total, wrong, spent = sum(one.bytes for one in chunks), 0, list[float]()
            for _ in range(plan.passes):
                for seed, step in patterns:
                    wrong += self._pattern(chunks, seed, step, spent)
            moved = 2 * total * plan.passes * len(patterns)
            rate = moved / sum(spent) if spent else None
            self.emit("end", part="patterns", value=rate, examined=total, wrong=wrong)

    def _pattern(self, chunks: list[Memory], seed: int, step: int, spent: list[float]) -> int:
        begin, wrong = 0, 0
        for chunk in chunks:
            with self.cuda.timed(spent):
                self.fill(chunk.address, chunk.bytes, seed + begin * step, step)
            begin += chunk.bytes // 4
            self.emit("tick", part="patterns")
        begin = 0
        for chunk in chunks:
            with self.cuda.timed(spent):
                first = seed + begin * step
                wrong += self.compare("patterns", chunk.address, chunk.bytes, first, step, begin)
            begin += chunk.bytes // 4
            self.emit("tick", part="patterns")
        return wrong

    def _chunks(self, wanted: int, stack: ExitStack) -> Iterator[Memory]:
        """Takes memory in pieces, smaller ones where no larger is free."""
        size = CHUNK_BYTES
        while wanted >= LEAST_CHUNK_BYTES and size >= LEAST_CHUNK_BYTES:
            try:
                found = self.cuda.allocate(min(size, wanted))
            except CudaError as error:
                if error.code != OUT_OF_MEMORY:
                    raise
                size //= 2
                continue
            stack.callback(self.cuda.free, found)
            wanted -= found.bytes
            yield found

    def fill(self, address: int, size: int, seed: int, step: int) -> None:
        values = [u64(address), u64(size // 16), u32(seed), u32(step)]
        self.cuda.launch(self._fill, self.sms * FILL_BLOCKS, kernels.BLOCK, values)

    def compare(self, part: str, address: int, size: int, seed: int, step: int, first: int) -> int:
        """Compares memory with its pattern; returns how many words differ. `first` is the number
        of its first word among those of this part."""
        with self.cuda.allocated(kernels.FOUND_BYTES + LISTED * kernels.WRONG_BYTES) as found:
            self.cuda.write(found, bytes(kernels.FOUND_BYTES))
            values = [u64(address), u64(size // 16), u32(seed), u32(step), u64(found.address)]
            blocks = self.sms * FILL_BLOCKS
            self.cuda.launch(self._compare, blocks, kernels.BLOCK, [*values, u32(LISTED)])
            count = int.from_bytes(self.cuda.read(found, 4), "little")
            if count:
                raw = self.cuda.read(found, found.bytes)[kernels.FOUND_BYTES :]
                listed = wrong_entries(raw, kernels.WRONG_BYTES)[: min(count, LISTED)]
                words = [
                    {"at": first + at, "got": got, "expected": should, "address": address + 4 * at}
                    for at, got, should in listed
                ]
                self.emit("wrong", part=part, words=words)
        return count

    # The host.

    def link(self, seconds: float) -> None:
        """Copies from the host and back, and compares what came back."""
        free = self.cuda.memory()[0]
        half = max(4096, min(PINNED_BYTES // 2, free // 4) // 4096 * 4096)
        with (
            self.part("link"),
            self.cuda.pinned(2 * half) as host,
            self.cuda.allocated(half) as on_card,
        ):
            back = Memory(host.address + half, half)
            content = bytes(range(256)) * (half // 256)
            set_host(host, content)
            copy_up(
                self.cuda, on_card.address, host.address, half
            )  # a link that sleeps wakes slowly
            up, down, until = list[float](), list[float](), time.monotonic() + seconds
            while not up or time.monotonic() < until:
                with self.cuda.timed(up):
                    copy_up(self.cuda, on_card.address, host.address, half)
                with self.cuda.timed(down):
                    copy_down(self.cuda, back.address, on_card.address, half)
                self.emit("tick", part="link")
            wrong = _differences(host_content(back, half), content)
            self.emit(
                "end", part="link", value=half / _steady(up), back=half / _steady(down),
                examined=half, wrong=wrong,
            )  # fmt: skip

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Reports when a part begins; memory that is not there skips it."""
        self.emit("begin", part=name)
        try:
            yield
        except CudaError as error:
            if error.code != OUT_OF_MEMORY:
                raise
            self.emit("skip", part=name, reason=f"the card has no memory left for it: {error}")


def _steady(spent: list[float]) -> float:
    """Returns how long a copy takes once the host is awake: for a tenth of a second those to an
    H200 took twice as long."""
    return median(spent[len(spent) // 2 :])


def _differences(got: bytes, should: bytes) -> int:
    if got == should:
        return 0
    pairs = zip(memoryview(got).cast("I"), memoryview(should).cast("I"), strict=True)
    return sum(a != b for a, b in pairs)
