"""The header of a GGUF file (llama.cpp): the model's shape and the size of its tensors."""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from andon.core.estimate.quantisation import packed, plain
from andon.core.estimate.shape import (
    BITS_PER_BYTE,
    EstimateConfidence,
    ExpertLayers,
    FactSource,
    ModelFacts,
    ModelShape,
)
from andon.errors import Invalid

MAGIC = b"GGUF"
READ_BYTES = (1 << 20, 1 << 23, 1 << 26)
"""How much of a file is read: a larger piece only if the header is longer."""
_MOST_FIELDS, _MOST_TENSORS, _MOST_DEPTH = 100_000, 200_000, 2
_MOST_LAYERS = 4096
_SCALARS = {
    0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q",
    12: "<d",
}  # fmt: skip
_STRING, _ARRAY = 8, 9
_TYPES = {
    0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34),
    9: (32, 36), 10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210),
    15: (256, 292), 16: (256, 66), 17: (256, 74), 18: (256, 98), 19: (256, 50), 20: (32, 18),
    21: (256, 110), 22: (256, 82), 23: (256, 136), 24: (1, 1), 25: (1, 2), 26: (1, 4), 27: (1, 8),
    28: (1, 8), 29: (256, 56), 30: (1, 2), 34: (256, 54), 35: (256, 66), 39: (32, 17),
}  # fmt: skip
"""ggml's types: how many elements a block has, and how many bytes it takes."""


class HeaderGoesOn(Invalid):
    """The header is longer than the bytes that were read so far."""


@dataclass(slots=True)
class _Cursor:
    """A position in the first bytes of a file; every failure names the offset."""

    content: bytes
    where: str
    is_whole: bool  # the file has no more bytes than these
    at: int = 0

    def take(self, count: int) -> bytes:
        end = self.at + count
        if end > len(self.content):
            if self.is_whole:
                raise Invalid(f"{self.where} ends at offset {len(self.content)}, in its header")
            raise HeaderGoesOn(
                f"{self.where}: at offset {self.at} its header extends beyond "
                f"{len(self.content)} bytes, more than andon reads"
            )
        found, self.at = self.content[self.at : end], end
        return found

    def number(self, form: str) -> Any:
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def text(self) -> str:
        length = self.number("<Q")
        return self.take(length).decode("utf-8", "replace")

    def broken(self, why: str) -> Invalid:
        return Invalid(f"{self.where}: {why} at offset {self.at}")

    def value(self, kind: int, depth: int = 0) -> object:
        """A value; of an array only the number of elements and the largest are kept."""
        if kind in _SCALARS:
            return self.number(_SCALARS[kind])
        if kind == _STRING:
            return self.text()
        if kind != _ARRAY or depth >= _MOST_DEPTH:
            raise self.broken(f"unknown kind of value {kind}")
        inner, count = self.number("<I"), self.number("<Q")
        if inner in _SCALARS:
            size = struct.calcsize(_SCALARS[inner]) * count
            values = self.take(size)
            each = struct.iter_unpack(_SCALARS[inner], values if count <= _MOST_LAYERS else b"")
            return _Listed(count, max((value for (value,) in each), default=None))
        for _ in range(count):
            self.value(inner, depth + 1)
        return _Listed(count, None)


@dataclass(frozen=True, slots=True)
class _Listed:
    count: int
    largest: Any  # of numbers that may be one for each layer: some layers have none


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """What one file says; of a model in several files, only the first has all fields."""

    fields: Mapping[str, object]
    size_bytes: int
    elements: int
    has_head: bool  # of its own, rather than the embeddings'


def gguf_header(content: bytes, where: str, *, is_whole: bool) -> GgufHeader:
    """What the first bytes of a GGUF file say."""
    cursor = _Cursor(content, where, is_whole)
    if cursor.take(len(MAGIC)) != MAGIC:
        raise Invalid(f"{where} is not a GGUF file: it does not begin with GGUF at offset 0")
    version = cursor.number("<I")
    if version not in (2, 3):
        raise Invalid(f"{where}: GGUF version {version} at offset 4 is not known", hint="2 or 3")
    tensors, fields = cursor.number("<Q"), cursor.number("<Q")
    if tensors > _MOST_TENSORS or fields > _MOST_FIELDS:
        raise cursor.broken(f"{tensors} tensors and {fields} fields are announced")
    table = dict[str, object]()
    for _ in range(fields):
        key = cursor.text()
        table[key] = cursor.value(cursor.number("<I"))
    return GgufHeader(table, *_tensors(cursor, tensors))


def gguf_facts(parts: Sequence[GgufHeader], name: str, where: str) -> ModelFacts:
    """The model whose files have these headers, in their order."""
    size = sum(part.size_bytes for part in parts)
    elements = sum(part.elements for part in parts)
    has_head = any(part.has_head for part in parts)
    shape, notes = _shape(parts[0].fields, is_tied=not has_head)
    bits = size * BITS_PER_BYTE / elements if elements else 16.0
    stored = packed("GGUF", round(bits, 2)) if bits < 15 else plain()
    return ModelFacts(
        name=name,
        source=FactSource.GGUF,
        confidence=EstimateConfidence.HIGH,
        shape=shape,
        stored=stored,
        weights_bytes=size,
        parameters=elements,
        notes=notes,
        where=where,
    )


def _tensors(cursor: _Cursor, count: int) -> tuple[int, int, bool]:
    """Bytes, elements, and whether the head has weights of its own."""
    size, elements, has_head = 0, 0, False
    for _ in range(count):
        name = cursor.text()
        has_head = has_head or name == "output.weight"
        sides = cursor.number("<I")
        if sides > 8:
            raise cursor.broken(f"a tensor with {sides} dimensions")
        number = 1
        for _ in range(sides):
            number *= cursor.number("<Q")
        kind = cursor.number("<I")
        cursor.take(8)  # its place
        if kind not in _TYPES or number >= 1 << 50:
            raise cursor.broken(f"tensor {name[:40]!a} of unknown type {kind}")
        block, bytes_ = _TYPES[kind]
        size += -(-number // block) * bytes_
        elements += number
    return size, elements, has_head


def _shape(
    table: Mapping[str, object], *, is_tied: bool
) -> tuple[ModelShape | None, tuple[str, ...]]:
    family = str(table.get("general.architecture", ""))[:40]

    def whole(field: str) -> int | None:
        value = table.get(f"{family}.{field}")
        value = value.largest if isinstance(value, _Listed) else value
        return value if type(value) is int and 0 < value < 1 << 24 else None

    layers, hidden = whole("block_count"), whole("embedding_length")
    heads, inner = whole("attention.head_count"), whole("feed_forward_length")
    tokens = table.get("tokenizer.ggml.tokens")
    vocab = whole("vocab_size") or (tokens.count if isinstance(tokens, _Listed) else None)
    if layers is None or hidden is None or heads is None or vocab is None:
        return None, (f"the shape of the family {family!a} is not known",)
    experts = None
    if (count := whole("expert_count")) is not None:
        width = whole("expert_feed_forward_length") or inner or 4 * hidden
        first = whole("leading_dense_block_count") or 0
        shared = (whole("expert_shared_count") or 0) * width
        used = whole("expert_used_count") or 1
        experts = ExpertLayers(count, width, used, layers - min(first, layers), shared)
    return ModelShape(
        family=family,
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=min(heads, whole("attention.head_count_kv") or heads),
        head_dim=whole("attention.key_length") or max(1, hidden // heads),
        intermediate=inner or 4 * hidden,
        vocab=vocab,
        is_tied=is_tied,
        experts=experts,
        context=whole("context_length"),
    ), ()
