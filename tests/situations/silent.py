"""The device or the driver does not answer."""

from andon.model.device import Fault, FaultCode
from tests.situations.shared import job, part, training
from tests.situations.story import (
    A100,
    H200,
    LAPTOP,
    MINUTE,
    RTX_4090,
    Situation,
    asleep,
    card,
    lost,
    stale,
    still,
    work,
)

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
        expect="lost",
        never=frozenset({"hung", "low_occupancy", "healthy"}),
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
        expect="lost",
        never=frozenset({"healthy", "unattributed_memory"}),
    ),
    Situation(
        name="The firmware hangs and every question to the card blocks",
        source="github issues NVIDIA/open-gpu-kernel-modules#446, NVIDIA/dcgm-exporter#84",
        snapshots=still(
            stale(card(A100), work(A100, utilization_percent=100, power_watts=88.0), job(A100))
        ),
        device=card(A100).uuid,
        expect="hung",
        never=frozenset(
            {
                "low_occupancy",
                "lost",
                "healthy",
                "unattributed_memory",
            }
        ),
    ),
    Situation(
        name="A card has never answered since the machine started",
        source=(
            "github issue NVIDIA/nvidia-docker#377 (monitors in uninterruptible sleep since boot)"
        ),
        snapshots=still(training(A100, 0), stale(card(A100, 1), None, ago=20 * MINUTE)),
        device="",
        expect="hung",
        never=frozenset({"healthy", "asleep"}),
    ),
    Situation(
        name="A laptop's second card is suspended, and a monitor must not wake it",
        source=(
            "github issues corecoding/Vitals#442, PolpOnline/gpu-usage-waybar#111, "
            "D-Brox/cosmic-ext-applet-system-monitor#38"
        ),
        snapshots=still(asleep(card(LAPTOP))),
        device=card(LAPTOP).uuid,
        expect="asleep",
        never=frozenset({"hung", "lost", "unreadable", "no_driver"}),
    ),
    Situation(
        name="A container was started without its GPUs",
        source="github issues NVIDIA/nvidia-docker#464, #1548; the words are andon's own",
        snapshots=still(
            faults=(
                Fault(
                    "nvidia",
                    "the NVIDIA library libnvidia-ml.so.1 was not found",
                    ("no NVIDIA driver is installed; inside a container, start it with --gpus all"),
                ),
            )
        ),
        device="",
        expect="no_driver",
        never=frozenset({"healthy", "version_mismatch", "no_permission"}),
        mentions=("--gpus",),
    ),
    Situation(
        name="A container has no device file, and the kernel lists the cards of its host",
        source="github issues NVIDIA/nvidia-docker#464, #1548; the words are andon's own",
        snapshots=still(
            faults=(
                Fault(
                    "nvidia",
                    "the NVIDIA driver is not loaded",
                    "load it: sudo modprobe nvidia",
                    FaultCode.NO_DRIVER,
                    cards=8,
                    device_files=False,
                    container="docker",
                ),
            )
        ),
        device="",
        expect="container_without_gpu",
        never=frozenset({"healthy", "no_driver", "no_device"}),
        mentions=("--gpus all",),
    ),
    Situation(
        name="A laptop without a card, where NVIDIA's library is still tried",
        source="the words are andon's own",
        snapshots=still(
            faults=(
                Fault(
                    "nvidia",
                    "the NVIDIA library libnvidia-ml.so.1 was not found",
                    "no NVIDIA driver is installed",
                    FaultCode.NO_DRIVER,
                    cards=0,
                ),
            )
        ),
        device="",
        expect="no_device",
        never=frozenset({"healthy", "no_driver", "container_without_gpu"}),
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
        expect="no_driver",
        never=frozenset({"healthy", "no_device"}),
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
        expect="version_mismatch",
        never=frozenset({"healthy", "no_device", "no_permission"}),
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
        expect="no_permission",
        never=frozenset({"healthy", "version_mismatch", "no_device"}),
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
        expect="no_driver",
        never=frozenset({"healthy", "version_mismatch", "no_device"}),
        mentions=("container",),
    ),
    Situation(
        name="The driver answers and says that there is no card",
        source="github issue NVIDIA/nvidia-docker#933 (No devices were found after a reboot)",
        snapshots=still(),
        device="",
        expect="no_device",
        never=frozenset({"healthy", "lost"}),
    ),
)
