"""Memory, and who holds it."""

from tests.situations.shared import ALARMS, PID, job, part
from tests.situations.story import (
    A100,
    A100_PCIE,
    DAY,
    GIB,
    HOUR,
    MIB,
    MINUTE,
    RTX_3090,
    RTX_4060,
    RTX_4090,
    Situation,
    card,
    film,
    frame,
    graphics,
    idle,
    process,
    seen,
    still,
    stranger,
    work,
)

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
        expect="memory_full",
        never=frozenset(
            {
                "idle_memory",
                "unattributed_memory",
                "memory_leak",
                "shared",
            }
        ),
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
        expect="memory_full",
        never=frozenset({"shared", "idle_memory", "unattributed_memory"}),
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
        expect="memory_full",
        also=frozenset({"graphics"}),
        never=frozenset({"shared", "unattributed_memory", "idle_memory"}),
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
        expect="graphics",
        never=frozenset({"unattributed_memory", "idle_memory", "shared"}),
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
        expect="idle_memory",
        never=frozenset(
            {
                "unattributed_memory",
                "starved",
                "memory_full",
                "memory_leak",
                "healthy",
            }
        ),
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
        expect="idle_memory",
        never=frozenset(
            {
                "unattributed_memory",
                "memory_leak",
                "starved",
                "healthy",
            }
        ),
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
        expect="shared",
        never=frozenset(
            {
                "unattributed_memory",
                "idle_memory",
                "starved",
                "memory_full",
                "healthy",
            }
        ),
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
        expect="unattributed_memory",
        never=frozenset(
            {
                "idle_memory",
                "healthy",
                "graphics",
                "memory_full",
            }
        ),
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
        # LOW_OCCUPANCY is true of the numbers; without a process there is nobody to tell it to.
        expect="unattributed_memory",
        never=frozenset({"idle_memory", "starved", "healthy"}),
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
        expect="idle_memory",
        never=frozenset({"unattributed_memory", "healthy", "starved"}),
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
        expect="unattributed_memory",
        never=frozenset({"idle_memory", "healthy", "memory_leak"}),
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
        expect="memory_leak",
        never=frozenset(
            {
                "unattributed_memory",
                "idle_memory",
                "healthy",
                "memory_full",
            }
        ),
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
        expect="memory_leak",
        never=frozenset({"unattributed_memory", "idle_memory", "healthy"}),
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
        expect="healthy",
        never=ALARMS,
    ),
)
