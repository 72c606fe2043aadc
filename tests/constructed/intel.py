"""Machines with Intel's devices.

Sources, of the Linux kernel: Documentation/ABI/testing/sysfs-driver-intel-xe-hwmon and
sysfs-driver-intel-i915-hwmon (units), drivers/gpu/drm/xe/xe_gt_freq.c, xe_gt_idle.c,
xe_gt_throttle.c, xe_drm_client.c and xe_ttm_vram_mgr.c, i915/gt/intel_gt_sysfs_pm.c,
i915/i915_drm_client.c, and Documentation/gpu/drm-usage-stats.rst.
"""

from tests.constructed import Machine, host

GIB = 1024**3
ARC = "0000:03:00.0"
INTEGRATED = "0000:00:02.0"


def xe_fdinfo(client: int, vram: str, total_cycles: int, **cycles: int) -> str:
    """xe_drm_client.c, the example of its DOC comment."""
    lines = [
        "drm-driver:\txe",
        f"drm-client-id:\t{client}",
        f"drm-pdev:\t{ARC}",
        "drm-total-system:\t0",
        "drm-resident-system:\t0",
        "drm-total-gtt:\t192 KiB",
        "drm-resident-gtt:\t192 KiB",
        f"drm-total-vram0:\t{vram}",
        "drm-shared-vram0:\t16 MiB",
        f"drm-resident-vram0:\t{vram}",
    ]
    for name, count in cycles.items():
        lines += [f"drm-cycles-{name}:\t{count}", f"drm-total-cycles-{name}:\t{total_cycles}"]
    lines.append("drm-engine-capacity-vcs:\t2")
    return "\n".join(lines) + "\n"


def i915_fdinfo(client: int, resident_kib: int, **engines: int) -> str:
    """i915_drm_client.c: regions are called system0, local0 and stolen-…"""
    lines = [
        "drm-driver:\ti915",
        f"drm-client-id:\t{client}",
        f"drm-pdev:\t{INTEGRATED}",
        f"drm-total-system0:\t{resident_kib + 100} KiB",
        f"drm-resident-system0:\t{resident_kib} KiB",
        "drm-resident-stolen-system0:\t1 MiB",
        "drm-engine-capacity-video:\t2",
    ]
    lines += [f"drm-engine-{name}:\t{spent} ns" for name, spent in engines.items()]
    return "\n".join(lines) + "\n"


def arc() -> Machine:
    """An Arc B580 under xe, behind its card's own switch; debugfs is mounted, for root."""
    machine = host("6.16.0")
    place = machine.pci(ARC, "xe", under="0000:00:01.0/0000:01:00.0/0000:02:01.0/")
    root_port = "sys/devices/pci0000:00/0000:00:01.0"
    machine.add(root_port, {"vendor": "0x8086\n", "device": "0x460d\n"})
    machine.add(
        f"{root_port}/0000:01:00.0",
        {
            "vendor": "0x8086\n",
            "device": "0xe2ff\n",
            "current_link_speed": "16.0 GT/s PCIe\n",
            "current_link_width": 8,
            "max_link_speed": "16.0 GT/s PCIe\n",
            "max_link_width": 8,
        },
    )
    machine.add(
        f"{root_port}/0000:01:00.0/0000:02:01.0", {"vendor": "0x8086\n", "device": "0xe2f0\n"}
    )
    machine.add(
        place,
        {
            "vendor": "0x8086\n",
            "device": "0xe20b\n",
            "power/runtime_status": "active\n",
            "power/control": "auto\n",
            "current_link_speed": "2.5 GT/s PCIe\n",
            "current_link_width": 1,
            "drm/card0/dev": "226:0\n",
            "drm/renderD128/dev": "226:128\n",
            "tile0/gt0/freq0/act_freq": 2400,
            "tile0/gt0/freq0/cur_freq": 2850,
            "tile0/gt0/freq0/max_freq": 2850,
            "tile0/gt0/freq0/rp0_freq": 2850,
            "tile0/gt0/gtidle/idle_residency_ms": 100_000,
            "tile0/gt0/freq0/throttle/status": 1,
            "tile0/gt0/freq0/throttle/reason_pl1": 1,
            "tile0/gt0/freq0/throttle/reason_thermal": 0,
            "tile0/gt1/freq0/act_freq": 0,
            "tile0/gt1/freq0/throttle/status": 0,
            "tile0/gt1/gtidle/idle_residency_ms": 900_000,
        },
    )
    machine.add(
        f"{place}/hwmon/hwmon5",
        {
            "name": "xe\n",
            "energy1_input": 5_000_000_000,
            "energy2_input": 3_000_000_000,
            "power1_max": 190_000_000,
            "power1_rated_max": 190_000_000,
            "power2_max": 0,
            "temp2_label": "pkg\n",
            "temp2_input": 58000,
            "temp2_crit": 100000,
            "temp3_label": "vram\n",
            "temp3_input": 64000,
            "fan1_input": 1100,
        },
    )
    machine.files[f"sys/kernel/debug/dri/{ARC}/vram0_mm"] = (
        "  use_type: 1\n  use_tt: 0\n  size: 12884901888\n  usage: 3221225472\n"
        "default_page_size: 4KiB\n"
    )
    machine.process(
        500,
        "python3",
        {5: ("/dev/dri/renderD128", xe_fdinfo(9, "2048 MiB", 1_000_000, ccs=1000, rcs=0, vcs=0))},
    )
    return machine


def integrated() -> Machine:
    """A UHD Graphics 770 under i915: no sensors, no link, the system's memory."""
    machine = host("6.8.0")
    place = machine.pci(INTEGRATED, "i915")
    machine.add(
        place,
        {
            "vendor": "0x8086\n",
            "device": "0x4680\n",
            "power/runtime_status": "active\n",
            "power/control": "auto\n",
            "drm/card0/card0-HDMI-A-1/enabled": "enabled\n",
            "drm/card0/gt_act_freq_mhz": 350,
            "drm/card0/gt_cur_freq_mhz": 400,
            "drm/card0/gt_max_freq_mhz": 1550,
            "drm/card0/gt_RP0_freq_mhz": 1550,
            "drm/card0/gt/gt0/rc6_residency_ms": 50_000,
            "drm/card0/gt/gt0/throttle_reason_status": 0,
            "drm/card0/gt/gt0/throttle_reason_pl1": 0,
            "drm/renderD128/dev": "226:128\n",
        },
    )
    machine.process(
        700, "Xorg", {14: ("/dev/dri/card0", i915_fdinfo(2, 81920, render=1_000_000_000))}
    )
    return machine


def old_kernel() -> Machine:
    """Linux 4.4: a clock, and nothing else; fdinfo came with 5.19."""
    machine = host("4.4.0")
    place = machine.pci(INTEGRATED, "i915")
    machine.add(
        place,
        {
            "vendor": "0x8086\n",
            "device": "0x1916\n",
            "drm/card0/gt_act_freq_mhz": 300,
            "drm/card0/power/rc6_residency_ms": 10_000,
        },
    )
    machine.process(700, "Xorg", {14: ("/dev/dri/card0", "pos:\t0\nflags:\t02\nmnt_id:\t20\n")})
    return machine


def suspended() -> Machine:
    """An Arc in a laptop, asleep. Even its fdinfo must not be read: xe would wake the card."""
    machine = arc()
    place = "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:01.0/0000:03:00.0"
    machine.files[f"{place}/power/runtime_status"] = "suspended\n"
    return machine
