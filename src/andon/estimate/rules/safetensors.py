"""The header of a safetensors file: which tensors it holds, of which type and size."""

import json
import struct
from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from andon.errors import Invalid

LENGTH_BYTES = 8
MOST_HEADER_BYTES = 32 * 1024 * 1024
MOST_TENSORS = 1_000_000
MOST_IN_A_FILE = 200_000
_TABLES_EACH, _COMMAS_EACH = 3, 10  # of one tensor, in the text of a header
BITS = {
    "F64": 64, "I64": 64, "U64": 64, "F32": 32, "I32": 32, "U32": 32, "F16": 16, "BF16": 16,
    "I16": 16, "U16": 16, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "I8": 8, "U8": 8, "BOOL": 8,
    "F6_E2M3": 6, "F6_E3M2": 6, "F4": 4, "C64": 64,
}  # fmt: skip


class StoredTensors(Struct, frozen=True):
    """What one or more files hold."""

    size_bytes: int = 0
    elements: Mapping[str, int] = field(default_factory=dict)  # by type

    @property
    def is_plain(self) -> bool:
        """Whether all of it is in floats of 16 bits or more, so that elements are parameters."""
        return all(name in ("F32", "F16", "BF16", "F64") for name in self.elements)

    @property
    def parameters(self) -> int | None:
        """Returns the number of parameters; None if weights are packed: then an element holds
        several."""
        return sum(self.elements.values()) if self.elements and self.is_plain else None

    def __add__(self, other: "StoredTensors") -> "StoredTensors":
        names = {**self.elements, **other.elements}
        both = {name: self.elements.get(name, 0) + other.elements.get(name, 0) for name in names}
        return StoredTensors(self.size_bytes + other.size_bytes, both)


def header_length(first: bytes, where: str) -> int:
    """Returns the length of the header, from the first eight bytes of a file."""
    if len(first) < LENGTH_BYTES:
        raise Invalid(f"{where} ends at offset {len(first)}, inside the length of its header")
    (length,) = struct.unpack("<Q", first[:LENGTH_BYTES])
    if not 2 <= length <= MOST_HEADER_BYTES:
        raise Invalid(
            f"{where} is not a safetensors file: at offset 0 it says that its header has "
            f"{length} bytes",
            hint=f"a header has 2 to {MOST_HEADER_BYTES} bytes",
        )
    return int(length)


def parse_header(content: bytes, length: int, where: str) -> StoredTensors:
    """Parses the tensors of a header; raises Invalid, with the offset, if it is broken."""
    if len(content) < length:
        end = LENGTH_BYTES + len(content)
        raise Invalid(f"{where} ends at offset {end}, inside its header of {length} bytes")
    _check_size(content[:length], where)
    try:
        table = json.loads(content[:length])
    except UnicodeDecodeError as exc:
        raise Invalid(f"{where}: the header is not text at offset {exc.start + 8}") from exc
    except json.JSONDecodeError as exc:
        raise Invalid(f"{where}: the header is not JSON at offset {exc.pos + 8}") from exc
    except (RecursionError, ValueError) as exc:
        raise Invalid(f"{where}: the header cannot be read") from exc
    return stored_tensors(table, where)


def _check_size(text: bytes, where: str) -> None:
    """Checks the number of tables before parsing: each takes many times its two bytes in memory."""
    tables = text.count(b"{") + text.count(b"[")
    many = (
        tables > _TABLES_EACH * MOST_IN_A_FILE or text.count(b",") > _COMMAS_EACH * MOST_IN_A_FILE
    )
    if many:
        raise Invalid(f"{where} names more than {MOST_IN_A_FILE} tensors")


def stored_tensors(table: object, where: str) -> StoredTensors:
    """Returns the tensors of a header's JSON."""
    if not isinstance(table, Mapping):
        raise Invalid(f"{where}: the header is not a table of tensors")
    if len(table) > MOST_TENSORS:
        raise Invalid(f"{where} names {len(table)} tensors, more than {MOST_TENSORS}")
    size, elements = 0, dict[str, int]()
    for name, about in table.items():
        if name == "__metadata__":
            continue
        kind, count = _tensor(about, f"{where}: tensor {str(name)[:60]!a}")
        size += -(-count * BITS[kind] // 8)
        elements[kind] = elements.get(kind, 0) + count
    if not elements:
        raise Invalid(f"{where} has no tensors")
    return StoredTensors(size, elements)


def is_header(table: object) -> bool:
    """Whether this JSON is the header of a safetensors file rather than a config.json."""
    if not isinstance(table, Mapping):
        return False
    others = (value for name, value in table.items() if name != "__metadata__")
    first = next(iter(others), None)
    return isinstance(first, Mapping) and "dtype" in first and "shape" in first


def _tensor(about: object, where: str) -> tuple[str, int]:
    if not isinstance(about, Mapping):
        raise Invalid(f"{where} is not described")
    kind, sides = about.get("dtype"), about.get("shape")
    if not isinstance(kind, str) or kind not in BITS:
        raise Invalid(f"{where} has the unknown type {ascii(kind)[:40]}")
    if not isinstance(sides, list) or len(sides) > 16:
        raise Invalid(f"{where} has no shape")
    count = 1
    for side in sides:
        if type(side) is not int or not 0 <= side < 1 << 40:
            raise Invalid(f"{where} has a side of {ascii(side)[:40]}")
        count *= side
        if count >= 1 << 50:
            raise Invalid(f"{where} is impossibly large")
    return kind, count


def index_of(table: object, where: str) -> tuple[int | None, tuple[str, ...]]:
    """Returns the total size and the files that a model's index names."""
    weights: Any = table.get("weight_map") if isinstance(table, Mapping) else None
    if not isinstance(weights, Mapping) or not weights or len(weights) > MOST_TENSORS:
        raise Invalid(f"{where} has no weight_map")
    if not all(isinstance(name, str) for name in weights.values()):
        raise Invalid(f"{where}: weight_map does not name files")
    files = sorted(set(weights.values()))
    if any("/" in name or "\\" in name or name.startswith(".") for name in files):
        raise Invalid(f"{where} names a file outside its folder")
    about = table.get("metadata") if isinstance(table, Mapping) else None
    total = about.get("total_size") if isinstance(about, Mapping) else None
    if type(total) is float and total.is_integer():
        total = int(total)
    return (total if type(total) is int and 0 < total < 1 << 60 else None), tuple(files)
