"""What a model with given parameters needs, by the kept rule: sizes in its name, and a table."""

import re
from collections.abc import Mapping

Parameters = Mapping[str, str | int | float | bool]

TABLE_MIB = {65.0: 20_000, 70.0: 20_000, 7.0: 12_000, 13.0: 12_000}
OTHER_MIB = 8_000
_SIZE = re.compile(r"(?<![\d.])(\d+(?:\.\d+)?)[bB](?![A-Za-z])")
_NAMES = {
    "tensor": ("tp-size", "tp", "tensor-parallel-size"),
    "pipeline": ("pp-size", "pp", "pipeline-parallel-size"),
    "data": ("dp-size", "dp", "data-parallel-size"),
    "decode context": ("dcp-size", "dcp", "decode-context-parallel-size"),
    "context": ("cp-size", "cp", "context-parallel-size"),
}


def table_need(model: str, parameters: Parameters) -> tuple[int, int]:
    """GPUs (tensor x pipeline x the largest of the rest), and the MiB of each."""
    sizes = {what: _size(parameters, names) for what, names in _NAMES.items()}
    rest = max(sizes["data"], sizes["decode context"], sizes["context"])
    found = _SIZE.findall(model)
    memory = TABLE_MIB.get(float(found[-1]), OTHER_MIB) if found else OTHER_MIB
    return sizes["tensor"] * sizes["pipeline"] * rest, memory


def _size(parameters: Parameters, names: tuple[str, ...]) -> int:
    plain = {name.replace("_", "-").lstrip("-"): value for name, value in parameters.items()}
    for name in names:
        value = plain.get(name)
        if type(value) is int and value >= 1:
            return value
    return 1
