"""Results of checks, as an H200 gives them."""

from typing import Any

from msgspec.structs import replace

from andon.model.check import CardResult, CheckPart, CheckVerdict

H200 = {
    "fp32": (65.3e12, 1980.0), "tensor": (650e12, 1815.0), "memory": (4.28e12, None),
    "to_device": (55.2e9, None), "from_device": (55.2e9, None),
}  # fmt: skip
AT = 1_770_000_000.0


def check_result(uuid: str = "GPU-0", scale: float = 1.0, **changes: Any) -> CardResult:
    """A measurement of an H200 without a verdict; `scale` lowers its numbers and its clock."""
    parts = tuple(
        CheckPart(
            name, value * scale, clock_mhz=clock and clock * scale, pcie_generation=5, pcie_width=16
        )
        for name, (value, clock) in H200.items()
    )
    result = CardResult(
        "node17", uuid, uuid[4:], "NVIDIA H200", AT, "quick", CheckVerdict.UNJUDGED,
        driver="580.95.05", capability="9.0", sms=132, clock_mhz=1980.0,
        bandwidth_bytes_per_second=4.814e12, pcie_generation=5, pcie_width=16,
        power_limit_watts=700.0, power_default_watts=700.0, parts=parts,
    )  # fmt: skip
    return replace(result, **changes)


def with_part(result: CardResult, name: str, **changes: Any) -> CardResult:
    parts = tuple(replace(one, **changes) if one.name == name else one for one in result.parts)
    return replace(result, parts=parts)


def measured(*uuids: str, scale: float = 1.0, **changes: Any) -> list[CardResult]:
    """Judged results of other cards."""
    return [check_result(one, scale, verdict=CheckVerdict.OK, **changes) for one in uuids]
