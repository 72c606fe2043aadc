"""Nothing is wrong: the counter-examples."""

from andon.model.device import Fault
from tests.situations.shared import ALARMS, PID, UNUSED, job, part, training
from tests.situations.story import (
    A100,
    DAY,
    GIB,
    H200,
    MIB,
    RTX_4090,
    T4,
    V100,
    Situation,
    card,
    film,
    frame,
    graphics,
    idle,
    lost,
    process,
    seen,
    still,
    stranger,
    work,
)

HEALTHY = (
    Situation(
        name="Training keeps the card busy, a little under its power limit",
        source="counter-example to github issue NVIDIA/nccl#968",
        snapshots=still(training(H200), cpu=34.0, looks=6, every=5.0),
        device=card(H200).uuid,
        expect="healthy",
        never=ALARMS | {"memory_full", "unattributed_memory"},
    ),
    Situation(
        name="An idle data-centre card with only the driver's own reserve in use",
        source="measured on a real H200 (shared/FACTS.md); github issue vllm-project/vllm#10797",
        snapshots=still(seen(card(H200), idle(H200)), looks=4, every=5.0),
        device="",
        expect="healthy",
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
        expect="healthy",
        never=ALARMS,
    ),
    Situation(
        name="An idle card whose fans turn at their lowest speed of 30 percent",
        source="github issue Rem0o/FanControl.Releases#2262, andyljones/coolgpus pull 22",
        snapshots=still(seen(card(RTX_4090), idle(RTX_4090, fan_percent=30)), looks=4, every=5.0),
        device=card(RTX_4090).uuid,
        # 30 % is the least at which these fans can turn at all: no alarm, though it can be heard.
        expect="healthy",
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
        expect="healthy",
        never=frozenset(
            {
                "idle_memory",
                "unattributed_memory",
                "memory_leak",
                "idle_held",
                "starved",
                "low_occupancy",
            }
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
        expect="healthy",
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
        expect="healthy",
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
        # It is eight seconds old. STARVED would be the next best guess; a leak it is not.
        expect="healthy",
        never=frozenset(
            {
                "memory_leak",
                "idle_memory",
                "unattributed_memory",
                "idle_held",
            }
        ),
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
        expect="healthy",
        never=frozenset(
            {
                "idle_memory",
                "idle_held",
                "memory_leak",
                "unattributed_memory",
            }
        ),
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
        expect="healthy",
        never=frozenset({"clocks_set", "low_clocks", "power_cap"}),
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
        expect="healthy",
        never=UNUSED | {"low_occupancy"},
    ),
    Situation(
        name="A busy small card beside a bigger one is slower by nature, not by fault",
        source=(
            "counter-example to github issue tensorflow/tensorflow#8741; mixed nodes as in "
            "NVIDIA/dcgm-exporter#50"
        ),
        snapshots=still(training(A100, 0), training(T4, 1), training(A100, 2), looks=4),
        device=card(T4, 1).uuid,
        expect="healthy",
        never=frozenset({"slower_than_peers", "low_clocks"}),
    ),
    Situation(
        name="A healthy card in a node where another one is lost",
        source="github issue leptonai/gpud#604, asked from the other side",
        snapshots=still(training(H200, 0), lost(card(H200, 1), work(H200))),
        device=card(H200, 0).uuid,
        expect="healthy",
        never=frozenset({"lost", "hung"}),
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
        expect="healthy",
        never=frozenset({"no_driver", "no_device", "unreadable"}),
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
        # Every byte has a pid, so nothing is unattributed;
        # UNREADABLE about the names would be a fair second.
        expect="healthy",
        never=frozenset({"unattributed_memory", "idle_memory", "idle_held"}),
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
        expect="healthy",
        never=frozenset({"shared", "unattributed_memory", "idle_memory"}),
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
        expect="healthy",
        never=ALARMS,
    ),
)
