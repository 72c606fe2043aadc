"""The header of a GGUF file (llama.cpp): the model's shape and the size of its tensors."""

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from andon.errors import Invalid
from andon.estimate.rules.quantisation import plain, whole_file
from andon.estimate.rules.shape import (
    BITS_PER_BYTE,
    EstimateConfidence,
    ExpertLayers,
    FactSource,
    LatentAttention,
    ModelFacts,
    ModelShape,
)

MAGIC = b"GGUF"
ASSUMED_VOCAB = 128_000  # it decides only how the embeddings are divided
READ_BYTES = (1 << 20, 1 << 23, 1 << 26)
"""How much of a file is read: a larger piece only if the header is longer."""
_MOST_FIELDS, _MOST_TENSORS, _MOST_DEPTH = 10_000, 50_000, 2
_MOST_TEXTS = 2_000_000  # in all lists together: the largest vocabularies have 800,000
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
_PLAIN = {0: "float32", 1: "float16", 30: "bfloat16"}
_LENGTH = struct.Struct("<Q")


class HeaderGoesOn(Invalid):
    """Raised if the header is longer than the bytes read so far."""


class _Cursor(Struct):
    """A position in the first bytes of a file; every failure names the offset."""

    content: bytes
    where: str
    is_whole: bool  # the file has no more bytes than these
    at: int = 0
    texts: int = 0  # so far, in lists

    def take(self, count: int) -> bytes:
        end = self.at + count
        if end > len(self.content):
            raise self.too_short()
        found, self.at = self.content[self.at : end], end
        return found

    def too_short(self) -> Invalid:
        if self.is_whole:
            return Invalid(f"{self.where} ends at offset {len(self.content)}, in its header")
        return HeaderGoesOn(
            f"{self.where}: at offset {self.at} its header extends beyond "
            f"{len(self.content)} bytes, more than andon reads"
        )

    def skip_texts(self, count: int) -> None:
        """Skips a list of strings, of which only the number counts; vocabularies are long."""
        self.texts += count
        if self.texts > _MOST_TEXTS:
            raise self.broken(f"more than {_MOST_TEXTS} texts in lists")
        at, content, read = self.at, self.content, _LENGTH.unpack_from
        last = len(content) - _LENGTH.size
        for _ in range(count):
            if at > last:
                raise self.too_short()
            at += _LENGTH.size + read(content, at)[0]
        self.at = at
        if at > len(content):
            raise self.too_short()

    def number(self, form: str) -> Any:
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def text(self) -> str:
        length = self.number("<Q")
        return self.take(length).decode("utf-8", "replace")

    def broken(self, why: str) -> Invalid:
        return Invalid(f"{self.where}: {why} at offset {self.at}")

    def value(self, kind: int, depth: int = 0) -> object:
        """Reads a value; of a list only the number of elements, and the numbers of a short one."""
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
            return _Listed(count, tuple(value for (value,) in each))
        if inner == _STRING:
            self.skip_texts(count)
            return _Listed(count)
        if count > _MOST_LAYERS:
            raise self.broken(f"a list of {count} lists")
        for _ in range(count):
            self.value(inner, depth + 1)
        return _Listed(count)


class _Listed(Struct, frozen=True):
    count: int
    values: tuple[Any, ...] = ()  # numbers that may be one for each layer: some layers have none


class GgufHeader(Struct, frozen=True):
    """The header of one file; of a model in several files, only the first has all fields."""

    fields: Mapping[str, object]
    size_bytes: int
    elements: int
    has_head: bool  # of its own, rather than the embeddings'
    vocab: int | None = None  # by the embeddings
    plain_type: str | None = None  # of most elements, if they are not packed
    length: int = 0  # of the header itself


def gguf_header(content: bytes, where: str, *, is_whole: bool) -> GgufHeader:
    """Parses the first bytes of a GGUF file."""
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
    return _tensors(cursor, tensors, table)


def gguf_facts(parts: Sequence[GgufHeader], name: str, where: str) -> ModelFacts:
    """Returns the model whose files have these headers, in their order."""
    size = sum(part.size_bytes for part in parts)
    elements = sum(part.elements for part in parts)
    has_head = any(part.has_head for part in parts)
    vocab = next((part.vocab for part in parts if part.vocab is not None), None)
    shape, notes = _shape(parts[0].fields, vocab, is_tied=not has_head)
    bits = size * BITS_PER_BYTE / elements if elements else 16.0
    plain_type = next((part.plain_type for part in parts if part.plain_type is not None), None)
    stored = whole_file("", round(bits, 2)) if plain_type is None else plain(plain_type)
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


def _tensors(cursor: _Cursor, count: int, fields: Mapping[str, object]) -> GgufHeader:
    """Returns the header with the sizes in its list of tensors."""
    size, has_head, vocab, by_kind = 0, False, None, dict[int, int]()
    for _ in range(count):
        name = cursor.text()
        has_head = has_head or name == "output.weight"
        sides = cursor.number("<I")
        if sides > 8:
            raise cursor.broken(f"a tensor with {sides} dimensions")
        sizes = [cursor.number("<Q") for _ in range(sides)]
        number = math.prod(sizes)
        kind = cursor.number("<I")
        cursor.take(8)  # its place
        if number >= 1 << 50:
            raise cursor.broken(f"tensor {name[:40]!a} is impossibly large")
        if kind not in _TYPES:
            raise cursor.broken(f"tensor {name[:40]!a} of unknown type {kind}")
        if name == "token_embd.weight" and len(sizes) == 2 and 0 < sizes[1] < 1 << 24:
            vocab = sizes[1]
        block, bytes_ = _TYPES[kind]
        size += -(-number // block) * bytes_
        by_kind[kind] = by_kind.get(kind, 0) + number
    most = max(by_kind, key=lambda kind: by_kind[kind], default=None)
    return GgufHeader(
        fields, size, sum(by_kind.values()), has_head, vocab,
        None if most is None else _PLAIN.get(most), cursor.at,
    )  # fmt: skip


def _shape(
    table: Mapping[str, object], embedded: int | None, *, is_tied: bool
) -> tuple[ModelShape | None, tuple[str, ...]]:
    family = str(table.get("general.architecture", ""))[:40]

    def listed(field: str) -> tuple[int, ...]:
        """Returns one number for each layer; empty if the file has one for all."""
        value = table.get(f"{family}.{field}")
        found = value.values if isinstance(value, _Listed) else ()
        fine = all(type(one) is int and 0 <= one < 1 << 24 for one in found)
        return found if fine and any(found) else ()

    def whole(field: str) -> int | None:
        value = max(listed(field), default=table.get(f"{family}.{field}"))
        return value if type(value) is int and 0 < value < 1 << 24 else None

    layers, hidden = whole("block_count"), whole("embedding_length")
    heads, inner = whole("attention.head_count"), whole("feed_forward_length")
    if layers is None or layers > _MOST_LAYERS or hidden is None or heads is None:
        return None, (f"the shape of the family {family!a} is not known",)
    tokens = table.get("tokenizer.ggml.tokens")
    counted = tokens.count if isinstance(tokens, _Listed) else None
    vocab = whole("vocab_size") or embedded or counted or ASSUMED_VOCAB
    by_layer = listed("attention.head_count_kv")
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
        kv_heads_by_layer=by_layer if len(by_layer) == layers else (),
        head_dim=whole("attention.key_length") or max(1, hidden // heads),
        latent=_latent(whole),
        intermediate=inner or 4 * hidden,
        vocab=vocab,
        is_tied=is_tied,
        experts=experts,
        context=whole("context_length"),
    ), ()


def _latent(whole: Callable[[str], int | None]) -> LatentAttention | None:
    """Returns DeepSeek's latent attention: llama.cpp keeps one compressed vector per token, too."""
    rank, rope = whole("attention.kv_lora_rank"), whole("rope.dimension_count") or 64
    if rank is None:
        return None
    key = whole("attention.key_length_mla") or whole("attention.key_length") or 192
    value = whole("attention.value_length_mla") or whole("attention.value_length") or 128
    query = whole("attention.q_lora_rank")
    return LatentAttention(rank, rope, max(1, key - rope), value, query)
