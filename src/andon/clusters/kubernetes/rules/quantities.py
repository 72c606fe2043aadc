"""Counts GPUs in Kubernetes' quantities: what a node has, and what a pod asks for."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Final

from andon.clusters.kubernetes.rules.objects import ApiPod, PodContainer, Quantities
from andon.model.vendors import VENDORS

_QUANTITY: Final = re.compile(
    r"([+-]?(?:\d{1,30}\.?\d{0,30}|\.\d{1,30}))(m|u|n|k|[KMGTPE]i?|[eE][+-]?\d{1,2})?",
    re.ASCII,
)
_SIGNS: Final = {"": 0, "n": -3, "u": -2, "m": -1, "k": 1, "K": 1, "M": 2, "G": 3, "T": 4,
                 "P": 5, "E": 6}  # fmt: skip
_NONE: Final = Counter[str]()
MOST: Final = 1 << 20
"""GPUs of one machine; a larger number is a mistake."""
_DRIVERS: Final = frozenset(driver for vendor in VENDORS for driver in vendor.drivers)


def parse_quantity(text: str | int | float) -> Fraction | None:
    """Returns `2k`, `1500m`, `1Ki` or `1e3` as a number; None for anything else."""
    found = _QUANTITY.fullmatch(str(text).strip())
    if found is None:
        return None
    number, sign = Fraction(found[1]), found[2] or ""
    if sign[:1] in "eE" and len(sign) > 1 and sign != "Ei":
        return number * Fraction(10) ** int(sign[1:])
    if sign.endswith("i"):
        return number * Fraction(1024) ** _SIGNS[sign[0]]
    return number * Fraction(1000) ** _SIGNS[sign]


@lru_cache(4096)
def count_of(text: str | int | float, up: bool) -> int:
    """Returns whole GPUs: a fraction that is requested counts as one, a fraction that a node has as
    none."""
    found = parse_quantity(text)
    if found is None or found <= 0:
        return 0
    whole = -(-found.numerator // found.denominator) if up else found.numerator // found.denominator
    return min(MOST, whole)


@lru_cache(4096)
def is_gpu(resource: str) -> bool:
    """Whether a resource is a GPU or a part of one: `vendor.com/gpu`, `vendor.com/mig-1g.10gb`,
    `vendor.com/gpu.shared`, or a driver's name below a domain that begins with `gpu.`."""
    domain, sign, name = resource.partition("/")
    if not sign or domain.startswith("requests."):
        return False
    return (
        name == "gpu"
        or name.startswith(("gpu.", "mig-"))
        or (domain.startswith("gpu.") and name in _DRIVERS)
    )


def gpus_in(quantities: Quantities | None, up: bool) -> Counter[str]:
    """Returns how many of each kind of GPU there are."""
    return _gpus_in(tuple(quantities.items()), up) if quantities else _NONE


@lru_cache(4096)
def _gpus_in(quantities: tuple[tuple[str, str | int | float], ...], up: bool) -> Counter[str]:
    """Counts GPUs by kind; cached, as most nodes and pods are alike: do not change the result."""
    found = {name: count_of(text, up) for name, text in quantities if is_gpu(name)}
    return Counter({name: count for name, count in found.items() if count})


def pod_gpus(pod: ApiPod) -> Counter[str]:
    """Returns what a pod takes from its node: its containers together, or the init container that
    needs most, with those that keep running beside the others."""
    needed = list(filter(None, map(_needs, pod.spec.containers or ())))
    if not pod.spec.init_containers:
        return needed[0] if len(needed) == 1 else total(needed)
    beside, most = Counter[str](), Counter[str]()
    for one in pod.spec.init_containers:
        needs = _needs(one)
        if one.restart_policy == "Always":
            beside += needs
            most |= beside
        else:
            most |= beside + needs
    return most | total(needed) + beside


def total(counts: Iterable[Mapping[str, int]]) -> Counter[str]:
    found = dict[str, int]()
    for one in counts:
        for name, count in one.items():
            found[name] = found.get(name, 0) + count
    return Counter(found)


def _needs(container: PodContainer) -> Counter[str]:
    limits = gpus_in(container.resources.limits, up=True)
    requests = gpus_in(container.resources.requests, up=True)
    if limits is requests or not requests:
        return limits
    return limits | requests if limits else requests
