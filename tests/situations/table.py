"""Stories that people told about their GPUs, and what `andon why` should answer first.

The stories come from public reports (see `source`); the numbers are theirs where they gave any, and
those of a card of that kind otherwise. A comment says where the answer can be disputed.
"""

from dataclasses import replace

from andon.core.reasons import Code
from andon.model.device import Device, DeviceStatus, Fault, Process
from tests.situations.story import (
    A100,
    A100_PCIE,
    DAY,
    GB10,
    GIB,
    H200,
    HOUR,
    LAPTOP,
    MI100,
    MIB,
    MINUTE,
    RTX_3090,
    RTX_4060,
    RTX_4090,
    RTX_PRO,
    T4,
    V100,
    Model,
    Situation,
    Values,
    asleep,
    card,
    film,
    frame,
    graphics,
    idle,
    lost,
    process,
    seen,
    stale,
    still,
    stranger,
    work,
)

# Alarms that a healthy card must not raise.
ALARMS = frozenset(
    {
        Code.LOST,
        Code.HUNG,
        Code.HEAT,
        Code.HOT,
        Code.MEMORY_HEAT,
        Code.FAN_IDLE,
        Code.FAN_FAILED,
        Code.POWER_CAP,
        Code.POWER_LIMIT_LOWERED,
        Code.POWER_BRAKE,
        Code.HARDWARE_SLOWDOWN,
        Code.LOW_CLOCKS,
        Code.NARROW_LINK,
        Code.UNDERFED,
        Code.SHALLOW,
        Code.HOARDED,
        Code.GHOST,
        Code.LEAK,
        Code.IDLE_HELD,
        Code.ECC,
        Code.SLOWER_THAN_PEERS,
    }
)
UNUSED = frozenset({Code.IDLE_HELD, Code.HOARDED, Code.UNDERFED})
PID = 4242


def part(model: Model, share: float) -> int:
    """A share of the card's memory."""
    return int(model.memory_bytes * share)


def job(model: Model, share: float = 0.5, utilization: int = 97, pid: int = PID) -> Process:
    """The one process of a card of which `share` is in use; the rest is the context's overhead."""
    return process(pid, part(model, share) - 400 * MIB, utilization)


def training(model: Model, index: int = 0) -> DeviceStatus:
    """A card that trains and is well."""
    return seen(card(model, index), work(model), job(model, pid=PID + index))


# Nothing is wrong

HEALTHY = (
    Situation(
        name="Training keeps the card busy, a little under its power limit",
        source="counter-example to github issue NVIDIA/nccl#968",
        snapshots=still(training(H200), cpu=34.0, looks=6, every=5.0),
        device=card(H200).uuid,
        expect=Code.NOTHING,
        never=ALARMS | {Code.FULL, Code.GHOST},
    ),
    Situation(
        name="An idle data-centre card with only the driver's own reserve in use",
        source="measured on a real H200 (shared/FACTS.md); github issue vllm-project/vllm#10797",
        snapshots=still(seen(card(H200), idle(H200)), looks=4, every=5.0),
        device="",
        expect=Code.NOTHING,
        never=ALARMS,
    ),
    Situation(
        name="An idle card with low clocks, the lowest link and standing fans is only resting",
        source=(
            "github issue Syllo/nvtop#6 and XuehaiPan/nvitop#61; "
            "forums.developer.nvidia.com/t/72537"
        ),
        snapshots=still(
            seen(card(RTX_4090), idle(RTX_4090, temperature_celsius=44)), looks=4, every=5.0
        ),
        device=card(RTX_4090).uuid,
        expect=Code.NOTHING,
        never=ALARMS,
    ),
    Situation(
        name="An idle card whose fans turn at their lowest speed of 30 percent",
        source="github issue Rem0o/FanControl.Releases#2262, andyljones/coolgpus pull 22",
        snapshots=still(seen(card(RTX_4090), idle(RTX_4090, fan_percent=30)), looks=4, every=5.0),
        device=card(RTX_4090).uuid,
        # 30 % is the least at which these fans can turn at all: no alarm, though it can be heard.
        expect=Code.NOTHING,
        never=ALARMS,
    ),
    Situation(
        name=(
            "An inference server that took 90 percent of the memory by design and answers requests"
        ),
        source="github issues vllm-project/vllm#4723, #4253, #10357",
        snapshots=film(
            [
                frame(
                    seen(
                        card(H200),
                        work(
                            H200,
                            utilization_percent=busy,
                            memory_used_bytes=part(H200, 0.9),
                            power_watts=watts,
                        ),
                        process(
                            7100,
                            part(H200, 0.9) - 500 * MIB,
                            busy,
                            age=5 * DAY,
                            name="VLLM::EngineCore",
                            command="vllm serve meta-llama/Llama-3.1-8B-Instruct",
                            container="llm-server",
                        ),
                    )
                )
                for busy, watts in ((46, 310.0), (61, 362.0), (38, 287.0), (55, 341.0), (49, 322.0))
            ],
            every=5.0,
        ),
        device=card(H200).uuid,
        # FULL would be true as a remark; first it is not, because nothing is wrong.
        expect=Code.NOTHING,
        never=frozenset(
            {Code.HOARDED, Code.GHOST, Code.LEAK, Code.IDLE_HELD, Code.UNDERFED, Code.SHALLOW}
        ),
    ),
    Situation(
        name="Token by token decoding is bound by memory: busy, and moderate in watts",
        source="pages: emergentmind.com/papers/2604.11391 (memory-bound kernels under power caps)",
        snapshots=still(
            seen(
                card(A100),
                work(
                    A100,
                    utilization_percent=100,
                    memory_utilization_percent=88,
                    power_watts=245.0,
                    sm_clock_mhz=1410,
                    sm_active_percent=71.0,
                    tensor_active_percent=9.0,
                ),
                job(A100),
            ),
            looks=4,
        ),
        device=card(A100).uuid,
        expect=Code.NOTHING,
        never=ALARMS,
    ),
    Situation(
        name="A training run pauses for one look to write a checkpoint",
        source=(
            "the quiet moments in github issue facebookarchive/fb.resnet.torch#61, made harmless"
        ),
        snapshots=film(
            [
                *[frame(training(A100), cpu=28.0)] * 9,
                frame(
                    seen(
                        card(A100),
                        work(A100, utilization_percent=0, power_watts=92.0, sm_clock_mhz=1410),
                        job(A100, utilization=0),
                    ),
                    cpu=31.0,
                ),
            ],
            every=5.0,
        ),
        device=card(A100).uuid,
        # One quiet look in ten, and it is the newest: too little to call it idle.
        expect=Code.NOTHING,
        never=UNUSED,
    ),
    Situation(
        name="A model is being loaded: memory rises for the first seconds of a process",
        source=(
            "counter-example to the leaks; github issue vllm-project/vllm#4253 (all is taken at "
            "the start)"
        ),
        snapshots=film(
            [
                frame(
                    seen(
                        card(A100),
                        idle(
                            A100,
                            memory_used_bytes=gib * GIB,
                            sm_clock_mhz=1410,
                            utilization_percent=busy,
                            power_watts=71.0,
                            throttle=(),
                        ),
                        process(PID, gib * GIB - 300 * MIB, busy, age=8.0),
                    ),
                    cpu=22.0,
                )
                for gib, busy in ((1, 0), (6, 2), (13, 1), (19, 3), (26, 2), (32, 1))
            ]
        ),
        device=card(A100).uuid,
        # It is eight seconds old. UNDERFED would be the next best guess; a leak it is not.
        expect=Code.NOTHING,
        never=frozenset({Code.LEAK, Code.HOARDED, Code.GHOST, Code.IDLE_HELD}),
    ),
    Situation(
        name="A single look at a process that has just begun and not yet computed",
        source=(
            "own reasoning: one look at 0 percent is no proof; HPC idle rules wait 15 min to 2 h"
        ),
        snapshots=still(
            seen(
                card(A100),
                idle(A100, memory_used_bytes=30 * GIB, sm_clock_mhz=1410, power_watts=69.0),
                process(PID, 30 * GIB - 400 * MIB, 0, age=20.0),
            ),
            cpu=15.0,
            looks=1,
        ),
        device=card(A100).uuid,
        expect=Code.NOTHING,
        never=frozenset({Code.HOARDED, Code.IDLE_HELD, Code.LEAK, Code.GHOST}),
    ),
    Situation(
        name="Applications clocks are set, to the highest clock that the card has",
        source="github pulls awslabs/amazon-eks-ami#573, Azure/azurehpc#559 (images set them so)",
        snapshots=still(
            seen(
                card(A100),
                work(A100, sm_clock_mhz=1410, throttle=("applications_clocks_setting",)),
                job(A100),
            )
        ),
        device=card(A100).uuid,
        expect=Code.NOTHING,
        never=frozenset({Code.CLOCKS_SET, Code.LOW_CLOCKS, Code.POWER_CAP}),
    ),
    Situation(
        name="A video decoder works at 98 percent while hardly a kernel runs",
        source="github issues NVIDIA/VideoProcessingFramework#131, RandomEngy/VidCoder#1133",
        snapshots=still(
            seen(
                card(T4),
                work(
                    T4,
                    utilization_percent=7,
                    memory_utilization_percent=11,
                    memory_used_bytes=2200 * MIB,
                    decoder_percent=98,
                    encoder_percent=64,
                    power_watts=31.0,
                    sm_clock_mhz=1590,
                ),
                process(
                    911, 2000 * MIB, 7, name="ffmpeg", command="ffmpeg -hwaccel cuda -i in.mkv"
                ),
            ),
            cpu=27.0,
            looks=5,
            every=2.0,
        ),
        device=card(T4).uuid,
        # Its kernels idle and the card does not: what works here is another engine.
        expect=Code.NOTHING,
        never=UNUSED | {Code.SHALLOW},
    ),
    Situation(
        name="A busy small card beside a bigger one is slower by nature, not by fault",
        source=(
            "counter-example to github issue tensorflow/tensorflow#8741; mixed nodes as in "
            "NVIDIA/dcgm-exporter#50"
        ),
        snapshots=still(training(A100, 0), training(T4, 1), training(A100, 2), looks=4),
        device=card(T4, 1).uuid,
        expect=Code.NOTHING,
        never=frozenset({Code.SLOWER_THAN_PEERS, Code.LOW_CLOCKS}),
    ),
    Situation(
        name="A healthy card in a node where another one is lost",
        source="github issue leptonai/gpud#604, asked from the other side",
        snapshots=still(training(H200, 0), lost(card(H200, 1), work(H200))),
        device=card(H200, 0).uuid,
        expect=Code.NOTHING,
        never=frozenset({Code.LOST, Code.HUNG}),
    ),
    Situation(
        name="A healthy card on a machine that has no driver of another vendor",
        source=(
            "own reasoning: a reader that fails says nothing about the card that was asked about"
        ),
        snapshots=still(
            training(A100),
            faults=(Fault("amd", "the AMD library was not found", "no AMD driver is installed"),),
        ),
        device=card(A100).uuid,
        expect=Code.NOTHING,
        never=frozenset({Code.NO_DRIVER, Code.NO_DEVICE, Code.BLIND}),
    ),
    Situation(
        name="Inside a container the driver names host pids that nobody here can look up",
        source="github issues NVIDIA/nvidia-docker#1460, #1483, wookayin/gpustat#117",
        snapshots=still(
            seen(
                card(A100),
                work(A100, memory_used_bytes=part(A100, 0.4)),
                stranger(28290, part(A100, 0.4) - 450 * MIB, 96),
            )
        ),
        device=card(A100).uuid,
        # Every byte has a pid, so nothing is a ghost; BLIND about the names would be a fair second.
        expect=Code.NOTHING,
        never=frozenset({Code.GHOST, Code.HOARDED, Code.IDLE_HELD}),
    ),
    Situation(
        name="Four MPS clients of one user share a card as intended",
        source="github issues NVIDIA/k8s-device-plugin#764, arrayfire/arrayfire#1459",
        snapshots=still(
            seen(
                card(V100),
                work(V100, memory_used_bytes=13 * GIB, power_watts=231.0),
                process(
                    300,
                    30 * MIB,
                    0,
                    name="nvidia-cuda-mps-server",
                    command="nvidia-cuda-mps-server",
                ),
                *[process(310 + n, 3 * GIB, 24, command=f"python rank{n}.py") for n in range(4)],
            )
        ),
        device=card(V100).uuid,
        expect=Code.NOTHING,
        never=frozenset({Code.SHARED, Code.GHOST, Code.HOARDED}),
    ),
    Situation(
        name="A desktop of ordinary size on a big card",
        source="github issues Syllo/nvtop#70, XuehaiPan/nvitop#152 (the Xorg lines in them)",
        snapshots=still(
            seen(
                card(RTX_4090),
                idle(
                    RTX_4090,
                    utilization_percent=4,
                    memory_used_bytes=980 * MIB,
                    fan_percent=0,
                    throttle=(),
                ),
                graphics(1201, "Xorg", 420 * MIB, 2),
                graphics(1460, "gnome-shell", 260 * MIB, 2),
            ),
            looks=4,
        ),
        device=card(RTX_4090).uuid,
        # GRAPHICS would be true, and 4 % of the card is not worth a first place. The
        # lowered link of a card at 4 % is rest as well.
        expect=Code.NOTHING,
        never=ALARMS,
    ),
)

# The device or the driver does not answer

OUT = (
    Situation(
        name="One of eight cards has fallen off the bus",
        source="github issues NVIDIA/open-gpu-kernel-modules#507, #1151; leptonai/gpud#604",
        snapshots=still(
            *[training(H200, n) for n in range(5)],
            lost(card(H200, 5), work(H200, utilization_percent=100)),
            *[training(H200, n) for n in (6, 7)],
        ),
        device="",
        expect=Code.LOST,
        never=frozenset({Code.HUNG, Code.SHALLOW, Code.NOTHING}),
    ),
    Situation(
        name="A lost card was hot and full in its last sample",
        source=(
            "github issue NVIDIA/open-gpu-kernel-modules#507 (heat or a lack of power come before)"
        ),
        snapshots=still(
            lost(
                card(RTX_4090),
                work(
                    RTX_4090,
                    temperature_celsius=91,
                    memory_used_bytes=part(RTX_4090, 0.96),
                    throttle=("sw_thermal_slowdown",),
                ),
            )
        ),
        device=card(RTX_4090).uuid,
        # The last sample may serve as evidence; it is not what is wrong now.
        expect=Code.LOST,
        never=frozenset({Code.NOTHING, Code.GHOST}),
    ),
    Situation(
        name="The firmware hangs and every question to the card blocks",
        source="github issues NVIDIA/open-gpu-kernel-modules#446, NVIDIA/dcgm-exporter#84",
        snapshots=still(
            stale(card(A100), work(A100, utilization_percent=100, power_watts=88.0), job(A100))
        ),
        device=card(A100).uuid,
        expect=Code.HUNG,
        never=frozenset({Code.SHALLOW, Code.LOST, Code.NOTHING, Code.GHOST}),
    ),
    Situation(
        name="A card has never answered since the machine started",
        source=(
            "github issue NVIDIA/nvidia-docker#377 (monitors in uninterruptible sleep since boot)"
        ),
        snapshots=still(training(A100, 0), stale(card(A100, 1), None, ago=20 * MINUTE)),
        device="",
        expect=Code.HUNG,
        never=frozenset({Code.NOTHING, Code.ASLEEP}),
    ),
    Situation(
        name="A laptop's second card is suspended, and a monitor must not wake it",
        source=(
            "github issues corecoding/Vitals#442, PolpOnline/gpu-usage-waybar#111, "
            "D-Brox/cosmic-ext-applet-system-monitor#38"
        ),
        snapshots=still(asleep(card(LAPTOP))),
        device=card(LAPTOP).uuid,
        expect=Code.ASLEEP,
        never=frozenset({Code.HUNG, Code.LOST, Code.BLIND, Code.NO_DRIVER}),
    ),
    Situation(
        name="A container was started without its GPUs",
        source="github issues NVIDIA/nvidia-docker#464, #1548; the words are andon's own",
        snapshots=still(
            faults=(
                Fault(
                    "nvidia",
                    "the NVIDIA library libnvidia-ml.so.1 was not found",
                    (
                        "no NVIDIA driver is installed here; inside a container, start it with "
                        "--gpus all"
                    ),
                ),
            )
        ),
        device="",
        expect=Code.NO_DRIVER,
        never=frozenset({Code.NOTHING, Code.MISMATCH, Code.NO_PERMISSION}),
        mentions=("--gpus",),
    ),
    Situation(
        name="The kernel was upgraded and the driver's module is not loaded",
        source="github issues mattshma/bigdata#133, flydiscohuebr/nvidia-304#11",
        snapshots=still(
            faults=(
                Fault(
                    "nvidia",
                    "the NVIDIA driver is not loaded (NVML error 9)",
                    "load it with modprobe nvidia, or reinstall it for this kernel",
                ),
            )
        ),
        device="",
        expect=Code.NO_DRIVER,
        never=frozenset({Code.NOTHING, Code.NO_DEVICE}),
        mentions=("driver",),
    ),
    Situation(
        name="An unattended upgrade replaced the library under a running driver",
        source=(
            "HPC style runbook ai-infrastructure.net/runbook-driver-module-load-failure; "
            "wanpihou.xyz case"
        ),
        snapshots=still(
            faults=(
                Fault(
                    "nvidia",
                    (
                        "driver and library versions differ: Driver/library version mismatch (NVML "
                        "error 18)"
                    ),
                    "reload the driver's modules, or reboot",
                ),
            )
        ),
        device="",
        expect=Code.MISMATCH,
        never=frozenset({Code.NOTHING, Code.NO_DEVICE, Code.NO_PERMISSION}),
        mentions=("reboot",),
    ),
    Situation(
        name="A user outside the video group may not open the device",
        source="github issues NVIDIA/nvidia-docker#284, NVIDIA/nvidia-container-toolkit#210, #33",
        snapshots=still(
            faults=(
                Fault(
                    "nvidia",
                    "no permission to read the devices: Insufficient Permissions (NVML error 4)",
                    "add your user to the group of /dev/nvidiactl",
                ),
            )
        ),
        device="",
        expect=Code.NO_PERMISSION,
        never=frozenset({Code.NOTHING, Code.MISMATCH, Code.NO_DEVICE}),
        mentions=("permission",),
    ),
    Situation(
        name="A container loses its devices while it runs, and the driver says unknown error",
        source="github issue mattshma/bigdata#150 (EPERM on /dev/nvidiactl behind the words)",
        snapshots=still(
            faults=(
                Fault(
                    "nvidia",
                    "the NVIDIA library could not be started: Unknown Error (NVML error 999)",
                    "inside a container, restart it",
                ),
            )
        ),
        device="",
        # Behind it stands a lack of permission, which the words do not show: NO_DRIVER is "cannot
        # be read". NO_PERMISSION would need a look at the device files.
        expect=Code.NO_DRIVER,
        never=frozenset({Code.NOTHING, Code.MISMATCH, Code.NO_DEVICE}),
        mentions=("container",),
    ),
    Situation(
        name="The driver answers and says that there is no card",
        source="github issue NVIDIA/nvidia-docker#933 (No devices were found after a reboot)",
        snapshots=still(),
        device="",
        expect=Code.NO_DEVICE,
        never=frozenset({Code.NOTHING, Code.LOST}),
    ),
)

# Heat and fans

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
        expect=Code.HEAT,
        never=frozenset(
            {Code.POWER_BRAKE, Code.HARDWARE_SLOWDOWN, Code.LOW_CLOCKS, Code.FAN_FAILED}
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
        expect=Code.HEAT,
        never=frozenset({Code.LOW_CLOCKS, Code.POWER_CAP, Code.FAN_FAILED}),
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
        expect=Code.HEAT,
        never=frozenset({Code.POWER_BRAKE, Code.LOW_CLOCKS}),
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
        expect=Code.HEAT,
        never=frozenset({Code.NOTHING, Code.LOW_CLOCKS}),
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
        expect=Code.HOT,
        never=frozenset({Code.HEAT, Code.MEMORY_HEAT, Code.FAN_FAILED}),
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
        expect=Code.HOT,
        never=frozenset({Code.HEAT, Code.FAN_FAILED, Code.NOTHING}),
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
        expect=Code.MEMORY_HEAT,
        never=frozenset({Code.LOW_CLOCKS, Code.HOT, Code.FAN_IDLE}),
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
        expect=Code.MEMORY_HEAT,
        never=frozenset({Code.HEAT, Code.HOT}),
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
        expect=Code.FAN,
        never=frozenset({Code.FAN_IDLE, Code.FAN_FAILED, Code.HEAT, Code.HOT}),
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
        expect=Code.FAN,
        never=frozenset({Code.FAN_IDLE, Code.FAN_FAILED}),
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
        expect=Code.FAN_IDLE,
        never=frozenset({Code.FAN, Code.NOTHING, Code.FAN_FAILED}),
        mentions=("100",),
    ),
    Situation(
        name="The fan stands still on a hot and busy card",
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
        expect=Code.FAN_FAILED,
        also=frozenset({Code.HEAT}),
        never=frozenset({Code.FAN, Code.FAN_IDLE}),
        mentions=("90",),
    ),
)

# Power, clocks and the link

POWER = (
    Situation(
        name="Full load at the power limit, as the card is built",
        source=(
            "measured on a real H200 (shared/FACTS.md); github issue mlfoundations/open_clip#703"
        ),
        snapshots=still(
            seen(
                card(H200),
                work(
                    H200,
                    utilization_percent=100,
                    power_watts=694.0,
                    sm_clock_mhz=1665,
                    throttle=("sw_power_cap",),
                ),
                job(H200),
            ),
            looks=5,
        ),
        device=card(H200).uuid,
        # NOTHING would be as right; POWER_BOUND says the same and explains the flag.
        expect=Code.POWER_BOUND,
        never=ALARMS,
        mentions=("700",),
    ),
    Situation(
        name="A server feeds its card too little: capped at 240 of 400 watts",
        source="github issue l4rz/reverse-engineering-dell-idrac-to-get-rid-of-gpu-throttling#3",
        snapshots=still(
            seen(
                card(A100),
                work(
                    A100,
                    utilization_percent=100,
                    power_watts=240.0,
                    sm_clock_mhz=990,
                    throttle=("sw_power_cap",),
                ),
                job(A100),
            ),
            looks=4,
        ),
        device=card(A100).uuid,
        expect=Code.POWER_CAP,
        never=frozenset({Code.POWER_BOUND, Code.LOW_CLOCKS, Code.POWER_LIMIT_LOWERED}),
        mentions=("240",),
    ),
    Situation(
        name="A 70 watt card cannot afford its highest clock",
        source=(
            "pages: cr0x.net/en/gpu-power-limits-and-boost (a boost clock is a ceiling, not a "
            "promise)"
        ),
        snapshots=still(
            seen(
                card(T4),
                work(
                    T4,
                    utilization_percent=100,
                    power_watts=69.6,
                    sm_clock_mhz=960,
                    throttle=("sw_power_cap",),
                ),
                job(T4),
            ),
            looks=4,
        ),
        device=card(T4).uuid,
        # As built, and 40 % below its highest clock: by the 20 % rule it is POWER_CAP, while many
        # an owner would call it POWER_BOUND.
        expect=Code.POWER_CAP,
        never=frozenset({Code.LOW_CLOCKS, Code.POWER_LIMIT_LOWERED, Code.NOTHING}),
        mentions=("70",),
    ),
    Situation(
        name="A laptop's driver falls back to 55 watts and says no limit",
        source="github issues ublue-os/bazzite#4384, NVIDIA/open-gpu-kernel-modules#1344",
        snapshots=still(
            seen(
                card(LAPTOP),
                work(
                    LAPTOP,
                    power_watts=54.6,
                    power_limit_watts=None,
                    sm_clock_mhz=1395,
                    performance_state=3,
                    temperature_celsius=63,
                    throttle=("sw_power_cap",),
                ),
                job(LAPTOP),
            ),
            looks=4,
        ),
        device=card(LAPTOP).uuid,
        expect=Code.POWER_CAP,
        never=frozenset({Code.LOW_CLOCKS, Code.HEAT, Code.POWER_LIMIT_LOWERED}),
    ),
    Situation(
        name="An impossible power reading above the limit pins the clocks to the lowest",
        source="github issues NVIDIA/open-gpu-kernel-modules#1236, #1287",
        snapshots=still(
            seen(
                card(LAPTOP),
                work(
                    LAPTOP,
                    utilization_percent=100,
                    power_watts=588.0,
                    sm_clock_mhz=210,
                    temperature_celsius=47,
                    throttle=("sw_power_cap",),
                ),
                job(LAPTOP),
            ),
            looks=4,
        ),
        device=card(LAPTOP).uuid,
        expect=Code.POWER_CAP,
        never=frozenset({Code.POWER_BOUND, Code.NOTHING, Code.LOW_CLOCKS}),
        mentions=("588",),
    ),
    Situation(
        name="The administrator lowered the limit to save power in the rack",
        source=(
            "pages: factryze.ai/scale-atlas/power/power-capping, docs.nvidia.com DGX power capping"
        ),
        snapshots=still(
            seen(
                card(H200),
                work(
                    H200,
                    utilization_percent=100,
                    power_watts=498.0,
                    power_limit_watts=500.0,
                    sm_clock_mhz=1620,
                    throttle=("sw_power_cap",),
                ),
                job(H200),
            ),
            looks=4,
        ),
        device=card(H200).uuid,
        expect=Code.POWER_LIMIT_LOWERED,
        never=frozenset({Code.POWER_BOUND, Code.LOW_CLOCKS, Code.NOTHING}),
        mentions=("500", "700"),
    ),
    Situation(
        name="On battery the firmware allows 30 watts and the clocks fall by half",
        source="github issues seerge/g-helper#3944, 0x7375646F/Linuwu-Sense#106",
        snapshots=still(
            seen(
                card(LAPTOP),
                work(
                    LAPTOP,
                    power_watts=29.8,
                    power_limit_watts=30.0,
                    sm_clock_mhz=870,
                    temperature_celsius=58,
                    throttle=("sw_power_cap",),
                ),
                job(LAPTOP),
            ),
            looks=4,
        ),
        device=card(LAPTOP).uuid,
        # POWER_CAP is true as well; the lowered limit is why, and the only thing one can change.
        expect=Code.POWER_LIMIT_LOWERED,
        never=frozenset({Code.POWER_BOUND, Code.LOW_CLOCKS, Code.HEAT}),
        mentions=("30", "115"),
    ),
    Situation(
        name="A power supply failed and the server pulls the power brake",
        source=(
            "pages: pubs.lenovo.com/sr670/gpu_power_braking; patent US11656674B2; leptonai/gpud "
            "pull 331"
        ),
        snapshots=still(
            seen(
                card(A100),
                work(
                    A100,
                    power_watts=102.0,
                    sm_clock_mhz=300,
                    temperature_celsius=44,
                    throttle=("hw_slowdown", "hw_power_brake_slowdown"),
                ),
                job(A100),
            ),
            looks=4,
        ),
        device=card(A100).uuid,
        expect=Code.POWER_BRAKE,
        never=frozenset(
            {Code.HARDWARE_SLOWDOWN, Code.HEAT, Code.LOW_CLOCKS, Code.POWER_CAP, Code.SHALLOW}
        ),
        mentions=("300", "power"),
    ),
    Situation(
        name="The hardware slows a cool card and gives no reason",
        source="github pulls leptonai/gpud#330, #331; issue mlfoundations/open_clip#703",
        snapshots=still(
            seen(
                card(A100),
                work(
                    A100,
                    power_watts=98.0,
                    sm_clock_mhz=345,
                    temperature_celsius=46,
                    throttle=("hw_slowdown",),
                ),
                job(A100),
            ),
            looks=4,
        ),
        device=card(A100).uuid,
        expect=Code.HARDWARE_SLOWDOWN,
        never=frozenset({Code.HEAT, Code.LOW_CLOCKS, Code.POWER_CAP, Code.SHALLOW}),
        mentions=("345",),
    ),
    Situation(
        name="Someone set applications clocks far below what the card can do",
        source="github issue Ricks-Lab/gpu-utils#88 (the manual of -ac and -rac)",
        snapshots=still(
            seen(
                card(T4),
                work(
                    T4,
                    power_watts=38.0,
                    sm_clock_mhz=585,
                    throttle=("applications_clocks_setting",),
                ),
                job(T4),
            ),
            looks=4,
        ),
        device=card(T4).uuid,
        expect=Code.CLOCKS_SET,
        never=frozenset({Code.LOW_CLOCKS, Code.POWER_CAP, Code.HEAT, Code.SHALLOW}),
        mentions=("585",),
    ),
    Situation(
        name="A card waits for the slowest of its sync boost group",
        source=(
            "docs: surban.github.io managedCuda, nvmlClocksThrottleReason (what SyncBoost means)"
        ),
        snapshots=still(
            seen(
                card(V100),
                work(V100, sm_clock_mhz=960, power_watts=171.0, throttle=("sync_boost",)),
                job(V100),
            )
        ),
        device=card(V100).uuid,
        expect=Code.CLOCKS_SET,
        never=frozenset({Code.LOW_CLOCKS, Code.POWER_CAP}),
    ),
    Situation(
        name="A display setting holds the clocks of a card that also computes",
        source=(
            "own reasoning from docs/snapshot.md; github issue mlfoundations/open_clip#703 lists it"
        ),
        snapshots=still(
            seen(
                card(RTX_4090),
                work(
                    RTX_4090,
                    sm_clock_mhz=975,
                    power_watts=190.0,
                    throttle=("display_clock_setting",),
                ),
                job(RTX_4090),
            )
        ),
        device=card(RTX_4090).uuid,
        expect=Code.CLOCKS_SET,
        never=frozenset({Code.LOW_CLOCKS, Code.POWER_CAP}),
        mentions=("975",),
    ),
    Situation(
        name="Full utilisation at the idle clock, and no reason given",
        source="github issue stockmind/dell-xps-9560-ubuntu-respin#59",
        snapshots=still(
            seen(
                card(RTX_4090),
                work(
                    RTX_4090,
                    utilization_percent=100,
                    power_watts=41.0,
                    sm_clock_mhz=210,
                    memory_clock_mhz=405,
                    temperature_celsius=38,
                    fan_percent=30,
                    performance_state=8,
                    throttle=(),
                ),
                job(RTX_4090),
            ),
            looks=6,
        ),
        device=card(RTX_4090).uuid,
        # SHALLOW would also fit (busy, few watts); the clock explains the watts.
        expect=Code.LOW_CLOCKS,
        never=frozenset({Code.HEAT, Code.POWER_CAP, Code.NOTHING}),
        mentions=("210",),
    ),
    Situation(
        name="Clocks were locked to save power and nobody remembers",
        source="github issues NVIDIA/open-gpu-kernel-modules#483, ilya-zlobintsev/LACT#908",
        snapshots=still(
            seen(
                card(RTX_4090),
                work(
                    RTX_4090,
                    utilization_percent=100,
                    power_watts=232.0,
                    sm_clock_mhz=975,
                    throttle=(),
                ),
                job(RTX_4090),
            ),
            looks=6,
        ),
        device=card(RTX_4090).uuid,
        expect=Code.LOW_CLOCKS,
        never=frozenset({Code.HEAT, Code.POWER_CAP, Code.NOTHING, Code.SHALLOW}),
        mentions=("975",),
    ),
    Situation(
        name="A riser leaves four lanes of sixteen to a busy card",
        source="github pull noonghunna/club-3090#895; janhq/jan#183",
        snapshots=still(
            seen(
                card(RTX_3090),
                work(RTX_3090, utilization_percent=71, pcie_width=4, power_watts=240.0),
                job(RTX_3090, utilization=70),
            ),
            looks=5,
        ),
        device=card(RTX_3090).uuid,
        expect=Code.NARROW_LINK,
        never=frozenset({Code.NOTHING, Code.LOW_CLOCKS}),
        mentions=("16",),
    ),
    Situation(
        name="A link stays at generation 2 for hours of training at full utilisation",
        source="github pull local-inference-lab/rtx6kpro#88",
        snapshots=still(
            seen(
                card(RTX_PRO),
                work(RTX_PRO, utilization_percent=100, pcie_generation=2),
                job(RTX_PRO),
            ),
            looks=6,
            every=MINUTE,
        ),
        device=card(RTX_PRO).uuid,
        expect=Code.NARROW_LINK,
        never=frozenset({Code.NOTHING, Code.LOW_CLOCKS}),
        mentions=("2", "5"),
    ),
)

# Busy, and yet not


def _feeding(busy: int, watts: float) -> Values:
    return Values(
        utilization_percent=busy,
        memory_utilization_percent=busy // 3,
        power_watts=watts,
        sm_clock_mhz=1410,
    )


BUSY = (
    Situation(
        name="The data loader cannot keep up: the card is at 12 percent and the processor at 97",
        source=(
            "github issues ultralytics/yolov5#5681, pytorch/examples#387, facebookresearch/mmf#1166"
        ),
        snapshots=film(
            [
                frame(
                    seen(
                        card(A100),
                        work(A100, **_feeding(busy, 98.0)),
                        job(A100, utilization=busy),
                    ),
                    cpu=97.0,
                )
                for busy in (12, 9, 14, 11, 13, 12, 10, 12)
            ],
            every=5.0,
        ),
        device=card(A100).uuid,
        expect=Code.UNDERFED,
        never=frozenset({Code.HOARDED, Code.IDLE_HELD, Code.NOTHING, Code.SHALLOW}),
        mentions=("97",),
    ),
    Situation(
        name="Spikes to 90 percent with long pauses while the processor decodes images",
        source=(
            "github issues thtrieu/darkflow#471, runa91/barc_release#9, MLforHealth/ClinicalDG#2"
        ),
        snapshots=film(
            [
                frame(
                    seen(
                        card(V100),
                        work(
                            V100,
                            utilization_percent=busy,
                            power_watts=58.0 + 1.9 * busy,
                            sm_clock_mhz=1530,
                        ),
                        job(V100, utilization=busy),
                    ),
                    cpu=99.0,
                )
                for busy in (0, 0, 91, 0, 0, 0, 88, 0, 0, 0, 90, 0)
            ]
        ),
        device=card(V100).uuid,
        expect=Code.UNDERFED,
        never=frozenset({Code.HOARDED, Code.IDLE_HELD, Code.NOTHING}),
    ),
    Situation(
        name="The job waits for a slow disk: short spikes, and even the processor rests",
        source="github issues autonomousvision/transfuser#154, jwyang/faster-rcnn.pytorch#574",
        snapshots=film(
            [
                frame(
                    seen(
                        card(A100),
                        work(
                            A100,
                            utilization_percent=busy,
                            power_watts=66.0 + 2.4 * busy,
                            sm_clock_mhz=1410,
                        ),
                        job(A100, utilization=busy),
                    ),
                    cpu=7.0,
                )
                for busy in (0, 0, 0, 74, 0, 0, 0, 0, 69, 0, 0, 0)
            ],
            every=2.0,
        ),
        device=card(A100).uuid,
        # The processor does not witness it here; the spikes do: it works whenever data arrive.
        expect=Code.UNDERFED,
        never=frozenset({Code.HOARDED, Code.NOTHING, Code.SHALLOW}),
    ),
    Situation(
        name="Video is encoded on the card and decoded on an exhausted processor",
        source="github issues derekshreds/Snacks#34, jellyfin/jellyfin#3832",
        snapshots=still(
            seen(
                card(T4),
                work(
                    T4,
                    utilization_percent=8,
                    memory_utilization_percent=3,
                    memory_used_bytes=900 * MIB,
                    encoder_percent=34,
                    decoder_percent=3,
                    power_watts=26.0,
                    sm_clock_mhz=1590,
                ),
                process(911, 760 * MIB, 8, name="ffmpeg", command="ffmpeg -c:v hevc_nvenc"),
            ),
            cpu=98.0,
            looks=6,
            every=2.0,
        ),
        device=card(T4).uuid,
        expect=Code.UNDERFED,
        never=frozenset({Code.HOARDED, Code.IDLE_HELD, Code.SHALLOW}),
        mentions=("98",),
    ),
    Situation(
        name="A collective operation hangs: 100 percent busy at 70 watts",
        source=(
            "github issues NVIDIA/nccl#968 (100 % and about 70 W), cupy/cupy#3557, QwenLM/Qwen#970"
        ),
        snapshots=still(
            *[
                seen(
                    card(A100, n),
                    work(
                        A100,
                        utilization_percent=100,
                        memory_utilization_percent=0,
                        power_watts=72.0,
                        sm_clock_mhz=1410,
                        temperature_celsius=37,
                    ),
                    job(A100, utilization=100, pid=PID + n),
                )
                for n in range(4)
            ],
            cpu=13.0,
            looks=6,
            every=10.0,
        ),
        device=card(A100, 2).uuid,
        expect=Code.SHALLOW,
        never=frozenset({Code.NOTHING, Code.UNDERFED, Code.HOARDED, Code.POWER_CAP}),
        mentions=("100", "72"),
    ),
    Situation(
        name="Tiny kernels keep the card busy and one part in twenty of it at work",
        source=(
            "github issue lucidrains/imagen-pytorch#348 (a model too small for the card); "
            "docs/snapshot.md"
        ),
        snapshots=still(
            seen(
                card(H200),
                work(
                    H200,
                    utilization_percent=99,
                    memory_utilization_percent=4,
                    power_watts=168.0,
                    sm_clock_mhz=1980,
                    temperature_celsius=39,
                    sm_active_percent=5.0,
                    tensor_active_percent=0.0,
                    memory_used_bytes=part(H200, 0.1),
                ),
                job(H200, 0.1),
            ),
            looks=6,
            every=2.0,
        ),
        device=card(H200).uuid,
        expect=Code.SHALLOW,
        never=frozenset({Code.NOTHING, Code.UNDERFED, Code.LOW_CLOCKS}),
        mentions=("99",),
    ),
    Situation(
        name="One of four equal cards runs hotter and a sixth slower than the others",
        source="github issues tensorflow/tensorflow#8741, kubeflow/kubeflow#68",
        snapshots=still(
            *[
                seen(
                    card(A100, n),
                    work(
                        A100,
                        sm_clock_mhz=1170 if n == 2 else 1410,
                        temperature_celsius=81 if n == 2 else 61,
                        memory_temperature_celsius=84 if n == 2 else 70,
                    ),
                    job(A100, pid=PID + n),
                )
                for n in range(4)
            ],
            cpu=30.0,
            looks=6,
            every=5.0,
        ),
        device=card(A100, 2).uuid,
        # 17 % below its highest clock, without a flag: only the peers show that something is odd.
        expect=Code.SLOWER_THAN_PEERS,
        never=frozenset({Code.NOTHING, Code.HEAT, Code.POWER_CAP}),
    ),
    Situation(
        name="One of four cards is capped at half the watts of its peers",
        source=(
            "github issue l4rz/reverse-engineering-dell-idrac-to-get-rid-of-gpu-throttling#3 "
            "(comment on a c4140)"
        ),
        snapshots=still(
            *[
                seen(
                    card(V100, n),
                    work(
                        V100,
                        sm_clock_mhz=930 if n == 3 else 1485,
                        power_watts=150.0 if n == 3 else 286.0,
                        throttle=("sw_power_cap",) if n == 3 else (),
                    ),
                    job(V100, pid=PID + n),
                )
                for n in range(4)
            ],
            looks=6,
            every=5.0,
        ),
        device="",
        # That it is slower than its peers follows; the cap is the cause.
        expect=Code.POWER_CAP,
        never=frozenset({Code.NOTHING, Code.LOW_CLOCKS}),
        mentions=("150",),
    ),
)

# Memory and who holds it

NOTEBOOK = "python -m ipykernel_launcher -f /home/ada/.local/share/jupyter/kernel-7.json"


def _rising(start: float, step: float, looks: int) -> tuple[int, ...]:
    """Bytes that grow by `step` GiB from look to look."""
    return tuple(int((start + step * n) * GIB) for n in range(looks))


MEMORY = (
    Situation(
        name="A training run fills the card and the next allocation will fail",
        source="github issues lucidrains/imagen-pytorch#348, muskie82/MonoGS#101",
        snapshots=still(
            seen(card(A100), work(A100, memory_used_bytes=part(A100, 0.985)), job(A100, 0.985)),
            looks=5,
            every=5.0,
        ),
        device=card(A100).uuid,
        expect=Code.FULL,
        never=frozenset({Code.HOARDED, Code.GHOST, Code.LEAK, Code.SHARED}),
        blames=PID,
    ),
    Situation(
        name="Two runs of one user fill a card between them",
        source="github issues tensorflow/tensorflow#30594, thtrieu/darkflow#636",
        snapshots=still(
            seen(
                card(RTX_4090),
                work(RTX_4090, memory_used_bytes=23_700 * MIB),
                process(5001, 15_800 * MIB, 55),
                process(5002, 7_500 * MIB, 41, command="python eval.py"),
            ),
            looks=5,
        ),
        device=card(RTX_4090).uuid,
        expect=Code.FULL,
        never=frozenset({Code.SHARED, Code.HOARDED, Code.GHOST}),
        blames=5001,
    ),
    Situation(
        name="Out of memory on an eight gigabyte card whose desktop holds two fifths",
        source="github issue ollama/ollama#3765 (consumers that a loader did not count)",
        snapshots=still(
            seen(
                card(RTX_4060),
                work(
                    RTX_4060,
                    memory_used_bytes=8_010 * MIB,
                    memory_reserved_bytes=150 * MIB,
                    power_watts=88.0,
                ),
                process(6001, 4_600 * MIB, 93, name="ollama", command="ollama runner"),
                graphics(1210, "gnome-shell", 2_100 * MIB, 2),
                graphics(1388, "steamwebhelper", 1_100 * MIB, 1),
            ),
            looks=4,
        ),
        device=card(RTX_4060).uuid,
        # FULL answers the question; GRAPHICS is what can be done about it.
        expect=Code.FULL,
        also=frozenset({Code.GRAPHICS}),
        never=frozenset({Code.SHARED, Code.GHOST, Code.HOARDED}),
    ),
    Situation(
        name="A desktop takes more than half of a small card",
        source="github issues pop-os/cosmic-epoch#1591 (4420 of 8188 MiB), NVIDIA/egl-wayland#126",
        snapshots=still(
            seen(
                card(RTX_4060),
                idle(
                    RTX_4060,
                    utilization_percent=24,
                    memory_used_bytes=4_420 * MIB,
                    performance_state=5,
                    pcie_generation=4,
                    throttle=(),
                ),
                graphics(2001, "cosmic-comp", 2_700 * MIB, 14),
                graphics(2044, "cosmic-panel", 980 * MIB, 6),
                graphics(2100, "firefox", 540 * MIB, 4),
            ),
            looks=5,
            every=2.0,
        ),
        device=card(RTX_4060).uuid,
        expect=Code.GRAPHICS,
        never=frozenset({Code.GHOST, Code.HOARDED, Code.SHARED}),
        blames=2001,
    ),
    Situation(
        name="A notebook kernel has held most of a card for three days and does nothing",
        source=(
            "HPC help page idris.fr Jean Zay (culling); jupyter-enterprise-gateway docs on idle "
            "kernels"
        ),
        snapshots=still(
            seen(
                card(A100),
                idle(A100, memory_used_bytes=part(A100, 0.76), sm_clock_mhz=1410, power_watts=66.0),
                process(
                    8008,
                    part(A100, 0.76) - 400 * MIB,
                    0,
                    age=3 * DAY,
                    command=NOTEBOOK,
                    container="jupyter-ada",
                ),
            ),
            cpu=2.0,
            looks=10,
            every=MINUTE,
        ),
        device=card(A100).uuid,
        expect=Code.HOARDED,
        never=frozenset({Code.GHOST, Code.UNDERFED, Code.FULL, Code.LEAK, Code.NOTHING}),
        blames=8008,
    ),
    Situation(
        name="One user works and another one's idle session holds the rest of the memory",
        source="github issues donaldlab/OSPREY3#67, NVIDIA/cuda-python#49",
        snapshots=still(
            seen(
                card(RTX_3090),
                work(RTX_3090, memory_used_bytes=23_900 * MIB),
                process(9001, 8_200 * MIB, 95),
                process(9002, 15_300 * MIB, 0, age=2 * DAY, user="bob", command="ipython"),
            ),
            looks=10,
            every=MINUTE,
        ),
        device=card(RTX_3090).uuid,
        # It is FULL and SHARED as well; the idle part is the one that can be given back.
        expect=Code.HOARDED,
        never=frozenset({Code.GHOST, Code.LEAK, Code.UNDERFED, Code.NOTHING}),
        blames=9002,
    ),
    Situation(
        name="Two users' jobs run at once and each gets half of the card",
        source="github issues NVIDIA/cuda-python#49, tensorflow/tensorflow#2416",
        snapshots=still(
            seen(
                card(A100),
                work(A100, utilization_percent=100, memory_used_bytes=part(A100, 0.6)),
                process(9101, part(A100, 0.35), 51),
                process(9102, part(A100, 0.24), 47, user="bob", command="python finetune.py"),
            ),
            looks=6,
            every=5.0,
        ),
        device=card(A100).uuid,
        expect=Code.SHARED,
        never=frozenset({Code.GHOST, Code.HOARDED, Code.UNDERFED, Code.FULL, Code.NOTHING}),
    ),
    Situation(
        name="A killed run left its memory behind and no process is listed",
        source="github issues pytorch/pytorch#4031, PaddlePaddle/PaddleOCR#2074, wandb/wandb#1247",
        snapshots=still(
            seen(card(RTX_3090), idle(RTX_3090, memory_used_bytes=19_000 * MIB)),
            looks=6,
            every=10.0,
        ),
        device=card(RTX_3090).uuid,
        expect=Code.GHOST,
        never=frozenset({Code.HOARDED, Code.NOTHING, Code.GRAPHICS, Code.FULL}),
    ),
    Situation(
        name="A vanished process keeps 10 GB and a kernel that never ends",
        source="github issue qizhou000/VisEdit#5 (100 % and 10151 MB without a pid)",
        snapshots=still(
            seen(
                card(A100_PCIE),
                work(
                    A100_PCIE,
                    utilization_percent=100,
                    memory_utilization_percent=0,
                    memory_used_bytes=10_151 * MIB,
                    power_watts=84.0,
                    temperature_celsius=52,
                    sm_clock_mhz=1410,
                ),
            ),
            looks=6,
            every=10.0,
        ),
        device=card(A100_PCIE).uuid,
        # SHALLOW is true of the numbers; without a process there is nobody to tell it to.
        expect=Code.GHOST,
        never=frozenset({Code.HOARDED, Code.UNDERFED, Code.NOTHING}),
    ),
    Situation(
        name="The driver names a dead process that still holds memory",
        source="github issues apache/mxnet#4242, Syllo/nvtop#70",
        snapshots=still(
            seen(
                card(RTX_3090),
                idle(RTX_3090, memory_used_bytes=19_400 * MIB),
                stranger(31794, 19_000 * MIB, 0),
            ),
            looks=6,
            every=MINUTE,
        ),
        device=card(RTX_3090).uuid,
        # A dead process or one of another container: the numbers cannot tell. The pid is known, so
        # it is no ghost by the letter; that its name is not known belongs into the sentence.
        expect=Code.HOARDED,
        never=frozenset({Code.GHOST, Code.NOTHING, Code.UNDERFED}),
        blames=31794,
    ),
    Situation(
        name="Managed memory fills the card and is not counted for its process",
        source="github issues Syllo/nvtop#213, gpuopenanalytics/pynvml#63 (60 GB used, 5 GB told)",
        snapshots=still(
            seen(
                card(A100),
                work(A100, memory_used_bytes=60 * GIB),
                process(PID, 5 * GIB, 96, command="./solver --managed"),
            ),
            looks=4,
        ),
        device=card(A100).uuid,
        # The one running process is the likely owner, and the driver does not say so.
        expect=Code.GHOST,
        never=frozenset({Code.HOARDED, Code.NOTHING, Code.LEAK}),
    ),
    Situation(
        name="A server's memory grows with every request",
        source=(
            "github issues cmosig/sentle#18, microsoft/TRELLIS.2#136, "
            "triton-inference-server/server#2109"
        ),
        snapshots=film(
            [
                frame(
                    seen(
                        card(RTX_4090),
                        work(RTX_4090, utilization_percent=63, memory_used_bytes=used),
                        process(
                            7200,
                            used - 400 * MIB,
                            62,
                            age=9 * HOUR,
                            name="tritonserver",
                            command="tritonserver --model-repository=/models",
                        ),
                    )
                )
                for used in _rising(6.0, 0.4, 24)
            ],
            every=MINUTE,
        ),
        device=card(RTX_4090).uuid,
        expect=Code.LEAK,
        never=frozenset({Code.GHOST, Code.HOARDED, Code.NOTHING, Code.FULL}),
        blames=7200,
    ),
    Situation(
        name="A desktop shell grows by the hour",
        source="github issue Schneegans/Burn-My-Windows#520 (4 GB and more after hours)",
        snapshots=film(
            [
                frame(
                    seen(
                        card(RTX_4060),
                        idle(
                            RTX_4060,
                            utilization_percent=6,
                            memory_used_bytes=used + 700 * MIB,
                            throttle=(),
                        ),
                        graphics(1460, "gnome-shell", used, 4),
                        graphics(1201, "Xwayland", 420 * MIB, 1),
                    )
                )
                for used in _rising(1.0, 0.125, 24)
            ],
            every=10 * MINUTE,
        ),
        device=card(RTX_4060).uuid,
        expect=Code.LEAK,
        never=frozenset({Code.GHOST, Code.HOARDED, Code.NOTHING}),
        blames=1460,
    ),
    Situation(
        name="Memory goes up and down with the batches and does not grow",
        source="github issue PaddlePaddle/PaddleSpeech#142 (feared as a leak, found to fluctuate)",
        snapshots=film(
            [
                frame(
                    seen(
                        card(A100),
                        work(A100, memory_used_bytes=gib * GIB),
                        process(PID, gib * GIB - 400 * MIB, 96, age=9 * HOUR),
                    )
                )
                for gib in (31, 36, 41, 33, 38, 30, 37, 42, 31, 35, 40, 32)
            ],
            every=MINUTE,
        ),
        device=card(A100).uuid,
        expect=Code.NOTHING,
        never=ALARMS,
    ),
)

# Held, and not used

HELD = (
    Situation(
        name="A batch job has a card and has never run a kernel on it",
        source=(
            "HPC help pages: researchcomputing.princeton.edu utilization policies, "
            "rc-docs.northeastern.edu idlebot"
        ),
        snapshots=still(
            seen(
                card(A100),
                idle(A100, memory_used_bytes=620 * MIB, sm_clock_mhz=1410, power_watts=63.0),
                replace(process(PID, 480 * MIB, 0, age=3 * HOUR), job="slurm:482113"),
            ),
            cpu=4.0,
            looks=10,
            every=MINUTE,
        ),
        device=card(A100).uuid,
        expect=Code.IDLE_HELD,
        never=frozenset({Code.HOARDED, Code.GHOST, Code.UNDERFED, Code.NOTHING}),
        blames=PID,
    ),
    Situation(
        name="A program claimed four cards and computes on the first",
        source="HPC help pages on underused jobs: dicc.um.edu.my, rc.ufl.edu scheduler policy",
        snapshots=still(
            training(A100, 0),
            *[
                seen(
                    card(A100, n),
                    idle(A100, memory_used_bytes=560 * MIB, sm_clock_mhz=1410, power_watts=64.0),
                    replace(process(PID, 430 * MIB, 0, age=3 * HOUR), lease="lease-7"),
                )
                for n in (1, 2, 3)
            ],
            cpu=18.0,
            looks=10,
            every=MINUTE,
        ),
        device=card(A100, 3).uuid,
        expect=Code.IDLE_HELD,
        never=frozenset(
            {Code.SLOWER_THAN_PEERS, Code.LOW_CLOCKS, Code.HOARDED, Code.UNDERFED, Code.NOTHING}
        ),
        blames=PID,
    ),
    Situation(
        name="An inference server waits, and nobody has asked it for a long time",
        source=(
            "github issues vllm-project/vllm#7768 (idle at P8, 58 % held), "
            "NVIDIA/open-gpu-kernel-modules#874"
        ),
        snapshots=still(
            seen(
                card(RTX_4090),
                idle(
                    RTX_4090,
                    memory_used_bytes=part(RTX_4090, 0.9),
                    performance_state=8,
                    pcie_generation=1,
                ),
                process(
                    7100,
                    part(RTX_4090, 0.9) - 450 * MIB,
                    0,
                    age=6 * DAY,
                    name="VLLM::EngineCore",
                    command="vllm serve Qwen/Qwen3-8B --port 8000",
                    container="llm-server",
                ),
            ),
            cpu=1.0,
            looks=10,
            every=MINUTE,
        ),
        device=card(RTX_4090).uuid,
        # It holds memory by design and is there to wait: idle and held, which is not hoarding. One
        # can argue for HOARDED (the letter) and for NOTHING (the design).
        expect=Code.IDLE_HELD,
        never=frozenset({Code.GHOST, Code.LEAK, Code.UNDERFED, Code.FAN_FAILED, Code.NARROW_LINK}),
        blames=7100,
    ),
)

# What cannot be known, and errors


MIG_REASON = "a MIG instance cannot tell it; only the whole board can"
BLANKS: Values = {
    "utilization_percent": None,
    "memory_utilization_percent": None,
    "temperature_celsius": None,
    "memory_temperature_celsius": None,
    "power_watts": None,
    "power_limit_watts": None,
    "energy_joules": None,
    "sm_clock_mhz": None,
    "memory_clock_mhz": None,
    "throttle": None,
    "encoder_percent": None,
    "decoder_percent": None,
    "pcie_generation": None,
    "pcie_width": None,
    "performance_state": None,
}
BOARD = card(A100)
SLICE = Device(
    uuid="MIG-3g40gb00-0000-4000-8000-000000000001",
    index=1,
    vendor="nvidia",
    name="NVIDIA A100-SXM4-80GB MIG 3g.40gb",
    parent=BOARD.uuid,
    memory_total_bytes=part(A100, 0.49),
)


def _partitioned() -> tuple[DeviceStatus, DeviceStatus]:
    board = work(
        A100,
        utilization_percent=None,
        memory_utilization_percent=None,
        memory_used_bytes=15 * GIB,
        power_watts=187.0,
        temperature_celsius=48,
    )
    instance = replace(
        work(A100, **BLANKS),
        memory_used_bytes=14 * GIB,
        memory_free_bytes=part(A100, 0.49) - 14 * GIB - 640 * MIB,
        ecc_uncorrected=None,
    )
    return (
        seen(
            BOARD,
            board,
            missing=dict.fromkeys(
                ("utilization_percent", "memory_utilization_percent"),
                "not supported while MIG is on",
            ),
        ),
        seen(
            SLICE,
            instance,
            process(PID, 14 * GIB - 300 * MIB, None),
            missing=dict.fromkeys(BLANKS, MIG_REASON),
        ),
    )


def _blind(model: Model, share: float) -> DeviceStatus:
    """A virtual card: memory, and hardly anything else."""
    used = part(model, share)
    sample = replace(
        work(model, **BLANKS),
        memory_used_bytes=used,
        memory_free_bytes=model.memory_bytes - used - 640 * MIB,
        fan_percent=None,
        ecc_uncorrected=None,
    )
    blanks = dict.fromkeys(BLANKS, "not supported by this virtual device")
    return seen(card(model), sample, missing=blanks | {"processes": "not supported"})


UNKNOWN = (
    Situation(
        name="A MIG instance shows no utilisation",
        source="github issues NVIDIA/dcgm-exporter#216, #50, utkuozdemir/nvidia_gpu_exporter#203",
        snapshots=still(*_partitioned(), looks=4),
        device=SLICE.uuid,
        expect=Code.PARTITIONED,
        never=frozenset({Code.IDLE_HELD, Code.HOARDED, Code.GHOST, Code.UNDERFED, Code.NOTHING}),
    ),
    Situation(
        name="A board whose MIG is on shows no utilisation either",
        source="github issues utkuozdemir/nvidia_gpu_exporter#203, NVIDIA/DCGM#80",
        snapshots=still(*_partitioned(), looks=4),
        device=BOARD.uuid,
        # Its memory is its instances', whose processes are listed with them: no ghost. BLIND would
        # be true; that MIG is the reason is more helpful.
        expect=Code.PARTITIONED,
        never=frozenset({Code.GHOST, Code.IDLE_HELD, Code.HOARDED}),
    ),
    Situation(
        name="A chip without memory of its own shows none",
        source=(
            "github issues lablup/all-smi#80, NordicHPC/sonar#460, snowflakedb/ArcticTraining#345 "
            "(pull)"
        ),
        snapshots=still(
            seen(
                card(GB10),
                idle(GB10, pcie_generation=None, pcie_width=None),
                missing={
                    "memory_used_bytes": "this chip uses the system's memory",
                    "memory_free_bytes": "this chip uses the system's memory",
                    "memory_reserved_bytes": "this chip uses the system's memory",
                },
            ),
            looks=4,
        ),
        device=card(GB10).uuid,
        expect=Code.UNIFIED,
        never=frozenset({Code.GHOST, Code.HOARDED, Code.FULL, Code.FAN_FAILED, Code.NARROW_LINK}),
    ),
    Situation(
        name="The process list cannot be read and three quarters of the memory are taken",
        source="github issues Project-HAMi/HAMi#235, microsoft/pai#2001, docker/for-linux#1531",
        snapshots=still(
            seen(
                card(A100),
                idle(A100, memory_used_bytes=part(A100, 0.75)),
                missing={"processes": "no permission to list the processes (NVML error 4)"},
            ),
            looks=6,
            every=10.0,
        ),
        device=card(A100).uuid,
        # Nobody can say whose it is, so nobody may say that it is nobody's.
        expect=Code.BLIND,
        never=frozenset({Code.GHOST, Code.HOARDED, Code.IDLE_HELD, Code.NOTHING}),
    ),
    Situation(
        name="A virtual card tells its memory and nothing else",
        source="github issue Project-HAMi/HAMi#235, told of a virtual card",
        snapshots=still(_blind(T4, 0.4), looks=4),
        device=card(T4).uuid,
        expect=Code.BLIND,
        never=frozenset(
            {Code.GHOST, Code.PARTITIONED, Code.IDLE_HELD, Code.NOTHING, Code.FAN_FAILED}
        ),
    ),
    Situation(
        name="Memory errors that could not be corrected, while a job still runs",
        source=(
            "github issues vllm-project/vllm#5222, NVIDIA/k8s-device-plugin#243, leptonai/gpud#80 "
            "(pull)"
        ),
        snapshots=still(
            seen(card(A100), work(A100, ecc_uncorrected=14), job(A100)), looks=4, every=10.0
        ),
        device=card(A100).uuid,
        expect=Code.ECC,
        never=frozenset({Code.NOTHING, Code.HEAT, Code.LOST}),
        mentions=("14",),
    ),
    Situation(
        name="Of four cards one has memory errors and one is merely at its power limit",
        source="github pull Azure/azurehpc#617 (which counts mean that a node must leave service)",
        snapshots=still(
            seen(
                card(A100, 0),
                work(A100, power_watts=398.0, sm_clock_mhz=1290, throttle=("sw_power_cap",)),
                job(A100),
            ),
            training(A100, 1),
            seen(card(A100, 2), idle(A100, ecc_uncorrected=3)),
            training(A100, 3),
            looks=4,
        ),
        device="",
        expect=Code.ECC,
        never=frozenset({Code.NOTHING, Code.POWER_BOUND}),
        mentions=("3",),
    ),
)

SITUATIONS: tuple[Situation, ...] = (
    *HEALTHY,
    *OUT,
    *HEAT,
    *POWER,
    *BUSY,
    *MEMORY,
    *HELD,
    *UNKNOWN,
)
