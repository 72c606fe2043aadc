"""Busy, and yet not."""

from tests.situations.shared import PID, job, part
from tests.situations.story import (
    A100,
    H200,
    MIB,
    T4,
    V100,
    Situation,
    Values,
    card,
    film,
    frame,
    process,
    seen,
    still,
    work,
)


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
        expect="starved",
        never=frozenset(
            {
                "idle_memory",
                "idle_held",
                "healthy",
                "low_occupancy",
            }
        ),
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
        expect="starved",
        never=frozenset({"idle_memory", "idle_held", "healthy"}),
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
        expect="starved",
        never=frozenset({"idle_memory", "healthy", "low_occupancy"}),
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
        expect="starved",
        never=frozenset({"idle_memory", "idle_held", "low_occupancy"}),
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
        expect="low_occupancy",
        never=frozenset({"healthy", "starved", "idle_memory", "power_cap"}),
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
        expect="low_occupancy",
        never=frozenset({"healthy", "starved", "low_clocks"}),
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
        expect="slower_than_peers",
        never=frozenset({"healthy", "heat", "power_cap"}),
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
        expect="power_cap",
        never=frozenset({"healthy", "low_clocks"}),
        mentions=("150",),
    ),
)
