"""Machines with AMD's devices.

Sources, of the Linux kernel: drivers/gpu/drm/amd/pm/amdgpu_pm.c (its DOC comments, and
hwmon_attributes_visible for which chip has which file), amdgpu_vram_mgr.c and amdgpu_gtt_mgr.c
(mem_info_*), amdgpu_fdinfo.c, amdgpu_ras.c (umc_err_count), include/kgd_pp_interface.h
(gpu_metrics), amdkfd/kfd_process.c and kfd_topology.c, and Documentation/gpu/drm-usage-stats.rst.
"""

import struct

from tests.constructed import Machine, host

GIB = 1024**3
RADEON = "0000:03:00.0"
INSTINCT = ("0000:05:00.0", "0000:26:00.0")
PROCESSOR = "0000:c4:00.0"
SECOND = "0000:01:00.0"


def metrics(major: int, minor: int, status: int) -> bytes:
    """gpu_metrics_v1_3 ends, and v2_2 ends, with the throttle status of 64 bits."""
    size = {(1, 3): 120, (2, 2): 128}.get((major, minor), 264)
    body = bytearray(b"\xff" * size)
    struct.pack_into("<HBB", body, 0, size, major, minor)
    struct.pack_into("<Q", body, size - 8, status)
    return bytes(body)


def fdinfo(pci: str, client: int, vram_kib: int, gtt_kib: int, **engines: int) -> str:
    """amdgpu_fdinfo.c: engines that were never used are left out."""
    lines = [
        "pos:\t0",
        "flags:\t02100002",
        "drm-driver:\tamdgpu",
        f"drm-client-id:\t{client}",
        f"drm-pdev:\t{pci}",
        "pasid:\t32771",
        f"drm-total-vram:\t{vram_kib} KiB",
        "drm-shared-vram:\t0",
        f"drm-resident-vram:\t{vram_kib} KiB",
        f"drm-memory-vram:\t{vram_kib} KiB",
        f"drm-memory-gtt: \t{gtt_kib} KiB",
        "drm-memory-cpu: \t0 KiB",
        "amd-evicted-vram:\t0 KiB",
    ]
    lines += [f"drm-engine-{name}:\t{spent} ns" for name, spent in engines.items()]
    return "\n".join(lines) + "\n"


def radeon() -> Machine:
    """A desktop with an RX 7900 XTX, a screen on it, a compositor and a Vulkan job.

    The card has a switch of its own (1002:1478 and 1479), whose upstream port has the real link.
    """
    machine = host()
    switch = "0000:00:01.1/0000:01:00.0/0000:02:00.0/"
    place = machine.pci(RADEON, "amdgpu", under=switch)
    upstream = "sys/devices/pci0000:00/0000:00:01.1/0000:01:00.0"
    machine.add("sys/devices/pci0000:00/0000:00:01.1", {
        "vendor": "0x1022\n", "device": "0x14db\n",
        "max_link_speed": "8.0 GT/s PCIe\n", "max_link_width": 8,
    })  # fmt: skip
    machine.add(
        upstream,
        {
            "vendor": "0x1002\n",
            "device": "0x1478\n",
            "current_link_speed": "8.0 GT/s PCIe\n",
            "current_link_width": 8,
            "max_link_speed": "16.0 GT/s PCIe\n",
            "max_link_width": 16,
        },
    )
    machine.add(f"{upstream}/0000:02:00.0", {"vendor": "0x1002\n", "device": "0x1479\n"})
    machine.add(
        place,
        {
            "vendor": "0x1002\n",
            "device": "0x744c\n",
            "revision": "0xc8\n",
            "product_name": "\n",
            "unique_id": "4a1b2c3d4e5f6071\n",
            "power/runtime_status": "active\n",
            "power/control": "auto\n",
            "gpu_busy_percent": 37,
            "mem_busy_percent": 12,
            "mem_info_vram_total": 24 * GIB,
            "mem_info_vram_used": 6 * GIB,
            "mem_info_gtt_total": 16 * GIB,
            "mem_info_gtt_used": GIB // 4,
            "pp_dpm_sclk": "0: 500Mhz\n1: 2304Mhz *\n2: 2482Mhz\n",
            "gpu_metrics": metrics(1, 3, 1 << 0 | 1 << 36),
            "current_link_speed": "16.0 GT/s PCIe\n",
            "current_link_width": 16,
            "drm/card1/card1-DP-1/enabled": "enabled\n",
            "drm/card1/card1-HDMI-A-1/enabled": "disabled\n",
            "drm/renderD128/dev": "226:128\n",
        },
    )
    machine.add(f"{place}/hwmon/hwmon4", _hwmon_radeon())
    machine.process(
        900,
        "gnome-shell",
        {
            9: ("/dev/dri/card1", fdinfo(RADEON, 11, 512 * 1024, 2048, gfx=5_000_000_000)),
            10: ("/dev/dri/renderD128", fdinfo(RADEON, 12, 1024, 0, gfx=1_000)),
            11: ("/dev/dri/renderD128", fdinfo(RADEON, 12, 1024, 0, gfx=1_000)),
            12: ("/dev/null", ""),
        },
    )
    machine.process(
        2100,
        "llama-server",
        {5: ("/dev/dri/renderD128", fdinfo(RADEON, 77, 4 << 20, 4096, compute=9_000, dma=50))},
    )
    return machine


def _hwmon_radeon() -> dict[str, str | bytes | int]:
    return {
        "name": "amdgpu\n",
        "temp1_label": "edge\n",
        "temp1_input": 51000,
        "temp1_crit": 100000,
        "temp2_label": "junction\n",
        "temp2_input": 63000,
        "temp2_crit": 110000,
        "temp3_label": "mem\n",
        "temp3_input": 66000,
        "power1_average": 114_000_000,
        "power1_cap": 339_000_000,
        "power1_cap_default": 339_000_000,
        "fan1_input": 1180,
        "fan1_max": 3200,
        "pwm1": 77,
        "pwm1_max": 255,
        "freq1_input": 2_304_000_000,
        "freq1_label": "sclk\n",
        "freq2_input": 1_249_000_000,
        "freq2_label": "mclk\n",
        "in0_label": "vddgfx\n",
    }


def instinct() -> Machine:
    """A server with two MI300X: no edge sensor, no fan, KFD with two processes.

    kfd_topology.c: location_id is bus << 8 | devfn. kfd_process.c: every process has a vram_ file
    for every card, and its queues name theirs.
    """
    machine = host("6.8.0")
    for index, address in enumerate(INSTINCT):
        place = machine.pci(address, "amdgpu")
        machine.add(place, _instinct(index))
        machine.add(
            f"{place}/hwmon/hwmon{index + 2}",
            {
                "name": "amdgpu\n",
                "temp2_label": "junction\n",
                "temp2_input": 71000 - 30000 * index,
                "temp2_crit": 100000,
                "temp3_label": "mem\n",
                "temp3_input": 62000,
                "power1_input": 612_000_000 - 450_000_000 * index,
                "power1_cap": 750_000_000,
                "freq1_input": 2_100_000_000,
                "freq2_input": 1_300_000_000,
            },
        )
        node = f"sys/class/kfd/kfd/topology/nodes/{index + 1}"
        bus = int(address[5:7], 16)
        machine.add(
            node,
            {
                "gpu_id": 51000 + index,
                "properties": f"cpu_cores_count 0\nlocation_id {bus << 8}\ndomain 0\n",
            },
        )
    machine.add(
        "sys/class/kfd/kfd/topology/nodes/0",
        {"gpu_id": 0, "properties": "cpu_cores_count 96\nlocation_id 0\ndomain 0\n"},
    )
    machine.files["sys/module/amdgpu/version"] = "6.10.5\n"
    _kfd_process(machine, 4000, "python3", {51000: 90 * GIB, 51001: 0}, queues={51000: 1})
    _kfd_process(machine, 4001, "rocminfo", {51000: 0, 51001: 0}, queues={})
    _kfd_process(machine, 4002, "idle-trainer", {51000: 0, 51001: 0}, queues={51001: 2})
    return machine


def _instinct(index: int) -> dict[str, str | bytes | int]:
    return {
        "vendor": "0x1002\n",
        "device": "0x74a1\n",
        "revision": "0x00\n",
        "product_name": "Instinct MI300X\n",
        "unique_id": f"ccf64e8a9f0000{index:02x}\n",
        "power/runtime_status": "active\n",
        "power/control": "on\n",
        "gpu_busy_percent": 98 if index == 0 else 0,
        "mem_busy_percent": 41 if index == 0 else 0,
        "mem_info_vram_total": 192 * GIB,
        "mem_info_vram_used": 91 * GIB if index == 0 else GIB,
        "mem_info_gtt_total": 96 * GIB,
        "mem_info_gtt_used": GIB,
        "gpu_metrics": metrics(1, 5, 0),
        "pp_dpm_sclk": "0: 132Mhz\n1: 2100Mhz *\n",
        "ras/umc_err_count": "ue: 0\nce: 4\nde: 0\n" if index == 0 else "ue: 2\nce: 9\nde: 0\n",
        "current_link_speed": "32.0 GT/s PCIe\n",
        "current_link_width": 16,
        "max_link_speed": "32.0 GT/s PCIe\n",
        "max_link_width": 16,
        f"drm/card{index + 1}/dev": f"226:{index + 1}\n",
        f"drm/renderD{128 + index}/dev": f"226:{128 + index}\n",
    }


def _kfd_process(
    machine: Machine, pid: int, name: str, held: dict[int, int], queues: dict[int, int]
) -> None:
    """ROCm opens every card's render node too; what it computes is not in fdinfo."""
    nodes = {
        20 + index: (f"/dev/dri/renderD{128 + index}", fdinfo(address, pid * 10, 2048, 0))
        for index, address in enumerate(INSTINCT)
        if held[51000 + index] or 51000 + index in queues
    }
    machine.process(pid, name, nodes)
    folder = f"sys/class/kfd/kfd/proc/{pid}"
    machine.add(folder, {f"vram_{number}": count for number, count in held.items()})
    machine.files[f"{folder}/pasid"] = "32770\n"
    numbers = [number for number, count in queues.items() for _ in range(count)]
    for queue, number in enumerate(numbers):
        machine.add(f"{folder}/queues/{queue}", {"gpuid": number, "size": 4096, "type": 2})


def processor() -> Machine:
    """A laptop with a Radeon 780M: no cap, no memory clock, one temperature, two pools of memory.

    Only such chips have the voltage vddnb. Kernels before 5.15 or so have no resident- keys.
    """
    machine = host()
    _processor(machine, PROCESSOR, "card0", "renderD128")
    old = fdinfo(PROCESSOR, 3, 300 * 1024, 700 * 1024, gfx=2_000_000_000)
    plain = "\n".join(line for line in old.splitlines() if "-vram:" not in line or "memory" in line)
    machine.process(1200, "kwin_wayland", {7: ("/dev/dri/card0", plain + "\n")})
    return machine


def _processor(machine: Machine, address: str, card: str, render: str) -> None:
    place = machine.pci(address, "amdgpu", under="0000:00:08.1/")
    machine.add("sys/devices/pci0000:00/0000:00:08.1", {"vendor": "0x1022\n", "device": "0x14eb\n"})
    machine.add(
        place,
        {
            "vendor": "0x1002\n",
            "device": "0x15bf\n",
            "revision": "0xc1\n",
            "power/runtime_status": "active\n",
            "power/control": "auto\n",
            "gpu_busy_percent": 4,
            "mem_info_vram_total": 512 * 1024**2,
            "mem_info_vram_used": 400 * 1024**2,
            "mem_info_gtt_total": 15 * GIB,
            "mem_info_gtt_used": 800 * 1024**2,
            "gpu_metrics": metrics(2, 2, 0),
            "current_link_speed": "16.0 GT/s PCIe\n",
            "current_link_width": 16,
            "max_link_speed": "16.0 GT/s PCIe\n",
            "max_link_width": 16,
            f"drm/{card}/{card}-eDP-1/enabled": "enabled\n",
            f"drm/{render}/dev": "226:128\n",
        },
    )
    machine.add(
        f"{place}/hwmon/hwmon3",
        {
            "name": "amdgpu\n",
            "temp1_label": "edge\n",
            "temp1_input": 47000,
            "in0_label": "vddgfx\n",
            "in1_label": "vddnb\n",
            "power1_average": 9_000_000,
            "freq1_input": 800_000_000,
        },
    )


def laptop() -> Machine:
    """A processor's graphics, awake, and a second GPU that the system has suspended.

    Documentation/ABI/testing/sysfs-devices-power: runtime_status. The second's files are all there,
    as they are on a real machine: reading most of them would wake it, or answer EPERM.
    """
    machine = host()
    _processor(machine, PROCESSOR, "card1", "renderD129")
    place = machine.pci(SECOND, "amdgpu", under="0000:00:01.1/")
    machine.add(
        place,
        {
            "vendor": "0x1002\n",
            "device": "0x7480\n",
            "revision": "0xc7\n",
            "unique_id": "0011223344556677\n",
            "power/runtime_status": "suspended\n",
            "power/control": "auto\n",
            "gpu_busy_percent": 0,
            "mem_info_vram_total": 8 * GIB,
            "mem_info_vram_used": 64 * 1024**2,
            "gpu_metrics": metrics(1, 3, 0),
            "pcie_bw": "0 0 256\n",
            "drm/card0/card0-HDMI-A-1/enabled": "disabled\n",
            "drm/renderD128/dev": "226:128\n",
        },
    )
    machine.add(f"{place}/hwmon/hwmon6", _hwmon_radeon())
    text = fdinfo(SECOND, 5, 32768, 0)
    machine.process(1300, "gnome-shell", {8: ("/dev/dri/renderD128", text)})
    return machine


def old_kernel() -> Machine:
    """Linux 4.15: a temperature without a label, a fan; gpu_busy_percent came with 4.19."""
    machine = host("4.15.0")
    place = machine.pci("0000:01:00.0", "amdgpu")
    machine.add(
        place,
        {
            "vendor": "0x1002\n",
            "device": "0x67df\n",
            "revision": "0xc7\n",
            "drm/card0/dev": "226:0\n",
            "drm/renderD128/dev": "226:128\n",
        },
    )
    machine.add(
        f"{place}/hwmon/hwmon0",
        {"name": "amdgpu\n", "temp1_input": 44000, "fan1_input": 900, "fan1_max": 3000},
    )
    return machine
