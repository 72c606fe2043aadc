"""No text makes a parser raise, and whatever is read keeps the contract of a reading."""

from hypothesis import given, settings
from hypothesis import strategies as st

from andon.drivers.nvidia_smi import cards, document, texts, trouble
from andon.drivers.nvidia_smi.cards import SystemMemory
from andon.drivers.nvidia_smi.report import SmiReport, parse_list, parse_unreachable
from andon.errors import AndonError
from andon.model import wire, wire_in
from andon.model.codec import to_json
from andon.model.device import Reading, State
from tests.support.nvidia_smi import H200, MIG, MIG_LIST, ODD, check, gpu, log

SHORT = H200.replace(H200[H200.index("<supported_clocks>") : H200.index("<processes>")], "")
SEEDS = (SHORT, log(gpu(MIG)), log(gpu(""), gpu("", bus="00000000:02:00.0", number=2)))
STRANGE = ("", "0", "-1 MiB", "101 %", "1e9", "9" * 40, "None", "<", "&", "\0", "💥", ", ", "\n")

pieces = st.one_of(st.sampled_from((*ODD, *STRANGE)), st.text(max_size=20))


@st.composite
def mutated(draw: st.DrawFn, seed: str) -> str:
    """A text with a few stretches replaced, doubled or cut off."""
    text = seed
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 60)))
        text = text[:start] + draw(pieces) * draw(st.integers(1, 2)) + text[end:]
    return text[: draw(st.integers(0, len(text)))] if draw(st.integers(0, 9)) == 0 else text


@st.composite
def revalued(draw: st.DrawFn, seed: str) -> str:
    """A document that is still one, with some of its values exchanged."""
    parts = seed.split(">")
    for _ in range(draw(st.integers(1, 12))):
        place = draw(st.integers(0, len(parts) - 1))
        _, angle, tag = parts[place].partition("<")
        if angle and tag.startswith("/"):
            word = draw(pieces).translate({ord(c): "" for c in "<>&"})
            parts[place] = word + angle + tag
    return ">".join(parts)


def judge(report: SmiReport, listed: str = "") -> None:
    memory = SystemMemory(1 << 30, 1 << 20)
    found = cards.recognise(report, (), parse_list(listed), memory, {})
    again = cards.recognise(report, [b.device for b in found], parse_list(listed), memory, {})
    devices = [d for board in found for d in (board.device, *(part for _, part in board.parts))]
    readings = cards.readings(found, memory, 1000.0)
    assert {b.device.uuid for b in again} == {b.device.uuid for b in found}
    assert len({device.uuid for device in devices}) == len(devices)
    assert {reading.uuid for reading in readings} <= {device.uuid for device in devices}
    totals = {device.uuid: device.memory_total_bytes for device in devices}
    check(readings)
    for device in devices:
        wire.dumps(to_json(device))
    for reading in readings:
        judge_reading(reading, totals[reading.uuid])


def judge_reading(reading: Reading, total: int | None) -> None:
    line = wire.dumps(wire.reading_to_json(reading))
    assert wire_in.reading_from_json(wire.loads(line, wire.ANSWER)) == reading
    assert len({process.pid for process in reading.processes}) == len(reading.processes)
    sample = reading.sample
    if sample is None:
        assert reading.state is State.LOST
        return
    percents = [sample.utilization_percent, sample.memory_utilization_percent, sample.fan_percent,
                sample.encoder_percent, sample.decoder_percent]  # fmt: skip
    assert all(value is None or 0 <= value <= 100 for value in percents)
    assert sample.memory_used_bytes is None or total is None or sample.memory_used_bytes <= total


@settings(deadline=None)
@given(st.data(), st.sampled_from(SEEDS))
def test_a_mutated_document_is_read_or_refused(data: st.DataObject, seed: str) -> None:
    text = data.draw(mutated(seed))
    judge(document.parse(text) or SmiReport(), MIG_LIST)
    judge(SmiReport(unreachable=parse_unreachable(document.around(text))))


@settings(deadline=None)
@given(st.data(), st.sampled_from(SEEDS))
def test_a_document_with_other_values_is_read(data: st.DataObject, seed: str) -> None:
    report = document.parse(data.draw(revalued(seed)))
    assert report is not None
    judge(report, data.draw(mutated(MIG_LIST)))


@settings(deadline=None)
@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    assert document.parse(text) is None
    judge(SmiReport(unreachable=parse_unreachable(text)))
    parse_list(text)
    cards.parse_meminfo(text)
    texts.pci_address(text)
    for name in texts.MEASURES:
        texts.read(name, text)


@settings(deadline=None)
@given(st.integers(-255, 255), st.text())
def test_any_failure_is_one_of_andon_s_errors(code: int, text: str) -> None:
    assert isinstance(trouble.failure(code, text), AndonError | None)
    assert trouble.misunderstood(code, text).hint


def test_the_seeds_themselves_are_read() -> None:
    """Else the tests above would only look at refusals."""
    assert all(document.parse(seed) for seed in SEEDS)
