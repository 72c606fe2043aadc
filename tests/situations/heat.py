"""Heat and fans."""

from tests.situations.shared import job
from tests.situations.story import (
    A100,
    A100_PCIE,
    MI100,
    RTX_3090,
    RTX_4090,
    T4,
    V100,
    Situation,
    card,
    film,
    frame,
    idle,
    seen,
    still,
    work,
)

HEAT = (
    Situation(
        name="A passive card in a box without airflow slows itself down at its limit",
        source=(
            "github issues rammsguns/llm-rig#100, kubeflow/kubeflow#68 (nvml.h on what hw_slowdown "
            "holds)"
        ),
        snapshots=still(
            seen(
                card(A100_PCIE),
                work(
                    A100_PCIE,
                    temperature_celsius=91,
                    power_watts=121.0,
                    sm_clock_mhz=585,
                    throttle=("hw_slowdown", "hw_thermal_slowdown"),
                ),
                job(A100_PCIE),
            ),
            looks=4,
        ),
        device=card(A100_PCIE).uuid,
        # hw_slowdown is the sum of its two parts, not a second cause beside one of them.
        expect="heat",
        never=frozenset(
            {
                "power_brake",
                "hardware_slowdown",
                "low_clocks",
                "fan_failed",
            }
        ),
        mentions=("91",),
    ),
    Situation(
        name="The driver lowers clocks to hold a target well below the slowdown temperature",
        source=(
            "github issue rammsguns/llm-rig#100; pages: "
            "chipfoundryservices.com/topic/gpu-thermal-throttling"
        ),
        snapshots=still(
            seen(
                card(T4),
                work(
                    T4,
                    temperature_celsius=85,
                    power_watts=44.0,
                    sm_clock_mhz=630,
                    throttle=("sw_thermal_slowdown",),
                ),
                job(T4),
            ),
            looks=4,
        ),
        device=card(T4).uuid,
        expect="heat",
        never=frozenset({"low_clocks", "power_cap", "fan_failed"}),
        mentions=("85",),
    ),
    Situation(
        name="An old driver says only hardware slowdown, and the card is above its limit",
        source="github issue nicehash/NiceHashMiner-Archived#432 (a driver of 2016)",
        snapshots=still(
            seen(
                card(V100),
                work(
                    V100,
                    temperature_celsius=88,
                    power_watts=96.0,
                    sm_clock_mhz=510,
                    throttle=("hw_slowdown",),
                ),
                job(V100),
            )
        ),
        device=card(V100).uuid,
        # The flag has no reason of its own; the temperature gives it one.
        expect="heat",
        never=frozenset({"power_brake", "low_clocks"}),
        mentions=("88",),
    ),
    Situation(
        name="Heat and the power limit hold the clocks at the same time",
        source="github issue mlfoundations/open_clip#703 (which of the reasons are harmless)",
        snapshots=still(
            seen(
                card(A100),
                work(
                    A100,
                    temperature_celsius=88,
                    power_watts=396.0,
                    sm_clock_mhz=1245,
                    throttle=("sw_power_cap", "sw_thermal_slowdown"),
                ),
                job(A100),
            )
        ),
        device=card(A100).uuid,
        expect="heat",
        never=frozenset({"healthy", "low_clocks"}),
        mentions=("88",),
    ),
    Situation(
        name="A card three degrees below its limit still has its clocks",
        source="github issue facebookarchive/fb.resnet.torch#61 (how hot is too hot?)",
        snapshots=still(
            seen(
                card(A100),
                work(A100, temperature_celsius=86, memory_temperature_celsius=82, throttle=()),
                job(A100),
            ),
            looks=4,
        ),
        device=card(A100).uuid,
        expect="hot",
        never=frozenset({"heat", "memory_heat", "fan_failed"}),
        mentions=("86",),
    ),
    Situation(
        name="A passive card in a desktop case is hot although nothing runs on it",
        source=(
            "github issue ROCm/legacy-rocm-build#1468 (idle and never cools), same cause on a T4"
        ),
        snapshots=still(
            seen(card(T4), idle(T4, temperature_celsius=91, power_watts=17.0, performance_state=8)),
            looks=6,
            every=10.0,
        ),
        device=card(T4).uuid,
        expect="hot",
        never=frozenset({"heat", "fan_failed", "healthy"}),
        mentions=("91",),
    ),
    Situation(
        name="The chip is cool and its memory is not: clocks fall at 66 degrees",
        source="pages: cr0x.net/en/gddr6x-memory-temperature-problem, snepi.space/posts/3090",
        snapshots=still(
            seen(
                card(RTX_3090),
                work(
                    RTX_3090,
                    temperature_celsius=66,
                    memory_temperature_celsius=110,
                    fan_percent=74,
                    power_watts=262.0,
                    sm_clock_mhz=1395,
                    throttle=("sw_thermal_slowdown",),
                ),
                job(RTX_3090),
            ),
            looks=4,
        ),
        device=card(RTX_3090).uuid,
        # HEAT is true too; what helps is to know which part is hot.
        expect="memory_heat",
        never=frozenset({"low_clocks", "hot", "fan_idle"}),
        mentions=("110",),
    ),
    Situation(
        name="High-bandwidth memory reaches its own limit under a memory-bound load",
        source=(
            "github issue ROCm/legacy-rocm-build#1468; bradrlaw/ai-server pull 15 (HBM 33 degrees "
            "over the core)"
        ),
        snapshots=still(
            seen(
                card(MI100),
                work(
                    MI100,
                    temperature_celsius=71,
                    memory_temperature_celsius=99,
                    memory_utilization_percent=97,
                    throttle=None,
                ),
                job(MI100),
                missing={"throttle": "the amdgpu driver does not tell it"},
            ),
            looks=4,
        ),
        device=card(MI100).uuid,
        expect="memory_heat",
        never=frozenset({"heat", "hot"}),
        mentions=("99",),
    ),
    Situation(
        name="A loud card under a heavy load is loud because of the load",
        source="pages: eatsip365.com guide to 4090 temperatures; Rem0o/FanControl.Releases#3243",
        snapshots=still(
            seen(
                card(RTX_4090),
                work(RTX_4090, temperature_celsius=76, fan_percent=82, power_watts=395.0),
                job(RTX_4090),
            ),
            looks=4,
        ),
        device=card(RTX_4090).uuid,
        expect="fan",
        never=frozenset({"fan_idle", "fan_failed", "heat", "hot"}),
        mentions=("82",),
    ),
    Situation(
        name="A job has just ended and the fans still blow its heat away",
        source="github issue Rem0o/FanControl.Releases#4174 (fans run on for about 120 s)",
        snapshots=film(
            [
                *[
                    frame(
                        seen(
                            card(RTX_4090),
                            work(RTX_4090, temperature_celsius=79, fan_percent=80),
                            job(RTX_4090),
                        )
                    )
                ]
                * 3,
                *[
                    frame(
                        seen(
                            card(RTX_4090),
                            idle(
                                RTX_4090,
                                temperature_celsius=degrees,
                                fan_percent=fan,
                                power_watts=44.0,
                                performance_state=2,
                                throttle=(),
                            ),
                        )
                    )
                    for degrees, fan in ((75, 80), (71, 77), (68, 74))
                ],
            ],
            every=5.0,
        ),
        device=card(RTX_4090).uuid,
        expect="fan",
        never=frozenset({"fan_idle", "fan_failed"}),
    ),
    Situation(
        name="The fans run at full speed on a cool card with nothing to do",
        source="github issue Rem0o/FanControl.Releases#1092",
        snapshots=still(
            seen(card(RTX_4090), idle(RTX_4090, temperature_celsius=33, fan_percent=100)),
            looks=6,
            every=10.0,
        ),
        device=card(RTX_4090).uuid,
        expect="fan_idle",
        never=frozenset({"fan", "healthy", "fan_failed"}),
        mentions=("100",),
    ),
    Situation(
        name="The fan has stopped on a hot and busy card",
        source=(
            "github issues NVIDIA/open-gpu-kernel-modules#413, "
            "suvash/nixos-nvidia-cuda-python-docker-compose#1"
        ),
        snapshots=still(
            seen(
                card(RTX_4090),
                work(
                    RTX_4090,
                    temperature_celsius=90,
                    fan_percent=0,
                    power_watts=168.0,
                    sm_clock_mhz=1290,
                    throttle=("sw_thermal_slowdown",),
                ),
                job(RTX_4090),
            ),
            looks=4,
        ),
        device=card(RTX_4090).uuid,
        # The slowdown is real and follows from the fan: the fan comes first.
        expect="fan_failed",
        also=frozenset({"heat"}),
        never=frozenset({"fan", "fan_idle"}),
        mentions=("90",),
    ),
)
