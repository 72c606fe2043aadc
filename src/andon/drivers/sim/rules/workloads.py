"""Models of simulated devices, with real data, and the workloads that run on them."""

from collections.abc import Callable
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import force_setattr

from andon.units import GIB, MIB


class Model(Struct, frozen=True):
    """A card as its data sheet and driver describe it."""

    name: str
    memory_bytes: int
    power_watts: float
    idle_watts: float
    slowdown_celsius: int
    full_celsius: int  # at full power, with healthy cooling
    sm_clock_mhz: int
    idle_clock_mhz: int
    memory_clock_mhz: int
    pcie_generation: int
    pcie_width: int = 16
    promised_bytes: int = 600 * MIB
    naps: bool = False  # drops to P8 and a slow link when idle
    desktop: bool = False  # a display server runs on it
    lacks: frozenset[str] = frozenset()  # the readings it never provides
    nvlink_gb_per_second: int = 0  # of all its links, in each direction

    @property
    def pcie_gb_per_second(self) -> float:
        """The bandwidth of the link in each direction: a lane doubles with each generation."""
        return 0.123 * float(1 << self.pcie_generation) * self.pcie_width


_FAN = frozenset({"fan_percent"})
_PROFILER = frozenset({"sm_active_percent", "tensor_active_percent"})
_SENSOR = frozenset({"memory_temperature_celsius"})
_ECC = frozenset({"ecc_uncorrected"})
_PLAIN = _PROFILER | _SENSOR
_AMD = _FAN | _PROFILER | {"encoder_percent", "decoder_percent", "performance_state"}

MODELS = {
    "H200": Model("NVIDIA H200", 143771 * MIB, 700, 76, 89, 66, 1980, 345, 3201, 5, lacks=_FAN,
                  nvlink_gb_per_second=450),
    "H100": Model("NVIDIA H100 80GB HBM3", 81559 * MIB, 700, 70, 89, 65, 1980, 345, 2619, 5,
                  lacks=_FAN, nvlink_gb_per_second=450),
    "A100": Model("NVIDIA A100-SXM4-80GB", 81920 * MIB, 400, 58, 89, 63, 1410, 210, 1593, 4,
                  lacks=_FAN | _PROFILER, nvlink_gb_per_second=300),
    "L4": Model("NVIDIA L4", 23034 * MIB, 72, 12, 94, 71, 2040, 210, 6251, 4,
                promised_bytes=440 * MIB, naps=True, lacks=_FAN | _PLAIN),
    "L40S": Model("NVIDIA L40S", 46068 * MIB, 350, 33, 94, 68, 2520, 210, 9001, 4,
                  naps=True, lacks=_FAN | _PLAIN),
    "T4": Model("Tesla T4", 15360 * MIB, 70, 9, 93, 70, 1590, 300, 5001, 3,
                promised_bytes=420 * MIB, naps=True, lacks=_FAN | _PLAIN),
    "RTX 4090": Model("NVIDIA GeForce RTX 4090", 24564 * MIB, 450, 18, 97, 71, 3105, 210, 10501, 4,
                      promised_bytes=350 * MIB, naps=True, desktop=True, lacks=_PLAIN | _ECC),
    "RTX 3090": Model("NVIDIA GeForce RTX 3090", 24576 * MIB, 350, 22, 95, 74, 2100, 210, 9751, 4,
                      promised_bytes=310 * MIB, naps=True, desktop=True, lacks=_PLAIN | _ECC),
    "RTX 4070 Laptop": Model("NVIDIA GeForce RTX 4070 Laptop GPU", 8188 * MIB, 115, 4, 97, 78,
                             3105, 210, 8001, 4, pcie_width=8, promised_bytes=230 * MIB,
                             naps=True, desktop=True, lacks=_FAN | _PLAIN | _ECC),
    "MI300X": Model("AMD Instinct MI300X", 192 * GIB, 750, 140, 100, 68, 2100, 132, 1300, 5,
                    lacks=_AMD),
}  # fmt: skip
"""The cards that can be simulated, by the name to type."""

# Workloads.


class Workload(StrEnum):
    """The workload of a simulated device."""

    TRAINING = "training"
    INFERENCE = "inference"
    IDLE = "idle"
    LEAKING = "leaking"
    OVERHEATING = "overheating"
    POWER_CAPPED = "power_capped"
    HELD = "held"


class LoadPhase(Struct, frozen=True):
    """A part of a cycle with constant load and power; shares are 0 to 1."""

    seconds: float
    load: float
    power: float  # of the range from idle to the limit
    memory: tuple[float, float] = (1.0, 1.0)  # of the workload's memory, at the start and the end
    clock: float = 1.0
    running: bool = True  # whether its programs are running


class Program(Struct, frozen=True):
    """A command of a workload, and its share of the workload's memory."""

    command: str
    share: float = 1.0


class Profile(Struct, frozen=True):
    """The physics of a workload. All cycles have the same length and energy."""

    phases: Callable[[float], tuple[LoadPhase, ...]]  # the phases of a cycle for a draw from [0, 1)
    programs: tuple[Program, ...] = ()
    memory: tuple[float, float] = (0.0, 0.0)  # a device uses a share between these
    bandwidth: float = 0.55
    tensor: float = 0.3
    pcie: tuple[float, float] = (0.04, 0.01)  # received and sent, as shares of the link
    nvlink: float = 0.0  # the same of the links between GPUs, in each direction
    decoder: float = 0.0
    inertia_seconds: float = 20.0
    overheating: float = 0.0  # how far above the slowdown full power would heat it
    limit_share: float = 1.0  # of the default power limit
    dies: bool = False  # its programs end with the cycle

    period_seconds: float = 0.0  # this and the next follow from the phases
    mean_power: float = 0.0

    def __post_init__(self) -> None:
        cycle = self.phases(0.0)
        seconds = sum(phase.seconds for phase in cycle)
        work = sum(phase.power * phase.seconds for phase in cycle)
        force_setattr(self, "period_seconds", seconds)
        force_setattr(self, "mean_power", work / seconds)


def _training(luck: float) -> tuple[LoadPhase, ...]:
    before = 20.0 + 42.0 * luck  # when the checkpoint is written
    return (
        LoadPhase(before, load=0.98, power=0.93, clock=0.96),
        LoadPhase(8.0, load=0.06, power=0.16),
        LoadPhase(82.0 - before, load=0.98, power=0.93, clock=0.96),
    )


def _inference(luck: float) -> tuple[LoadPhase, ...]:
    burst = 5.6 + 8.4 * luck  # a longer burst is lower, so that every cycle uses the same energy
    before = 0.5 + (19.0 - burst) * (luck * 7919.0 % 1.0)
    load = 5.6 / burst
    return (
        LoadPhase(before, load=0.0, power=0.06),
        LoadPhase(burst, load=load, power=0.06 + 0.7 * load),
        LoadPhase(20.0 - burst - before, load=0.0, power=0.06),
    )


def _leaking(_: float) -> tuple[LoadPhase, ...]:
    return (
        LoadPhase(590.0, load=0.55, power=0.5, memory=(0.12, 1.0)),
        LoadPhase(10.0, load=0.0, power=0.02, running=False),  # out of memory, then restarted
    )


def _overheating(_: float) -> tuple[LoadPhase, ...]:
    # Lengths and powers follow from `overheating` and `inertia_seconds`: 42 s climb from 47 % of
    # the way to just beyond the slowdown, half the clock holds it there, a pause lets it cool.
    return (
        LoadPhase(42.0, load=0.97, power=0.95),
        LoadPhase(120.0, load=0.97, power=0.606),
        LoadPhase(60.0, load=0.12, power=0.09),
    )


def _power_capped(luck: float) -> tuple[LoadPhase, ...]:
    before = 20.0 + 60.0 * luck
    return (
        LoadPhase(before, load=0.98, power=0.98, clock=0.68),
        LoadPhase(6.0, load=0.1, power=0.7, clock=0.75),
        LoadPhase(114.0 - before, load=0.98, power=0.98, clock=0.68),
    )


def _level(power: float) -> Callable[[float], tuple[LoadPhase, ...]]:
    return lambda _: (LoadPhase(60.0, load=0.0, power=power),)


PROFILES = {
    Workload.TRAINING: Profile(
        _training,
        (Program("python train.py --config llama.yaml"),),
        memory=(0.74, 0.93),
        tensor=0.52,
        nvlink=0.35,
    ),
    Workload.INFERENCE: Profile(
        _inference,
        (Program("vllm serve qwen3-32b --port 8000", 0.94), Program("python embed.py", 0.06)),
        memory=(0.9, 0.9),
        bandwidth=0.8,
        pcie=(0.02, 0.02),
    ),
    Workload.IDLE: Profile(_level(0.0)),
    Workload.LEAKING: Profile(
        _leaking,
        (Program("python caption.py --videos clips --cache all"),),
        memory=(1.0, 1.0),
        decoder=0.4,
        pcie=(0.3, 0.05),
        dies=True,
    ),
    Workload.OVERHEATING: Profile(
        _overheating,
        (Program("python finetune.py --epochs 40"),),
        memory=(0.5, 0.7),
        inertia_seconds=60.0,
        overheating=1.6 / 0.95,
    ),
    Workload.POWER_CAPPED: Profile(
        _power_capped,
        (Program("torchrun pretrain.py --resume last"),),
        memory=(0.7, 0.85),
        tensor=0.45,
        nvlink=0.3,
        limit_share=0.6,
    ),
    Workload.HELD: Profile(
        _level(0.04),
        (Program("python -m ipykernel_launcher -f kernel.json"),),
        memory=(0.55, 0.6),
    ),
}
