"""What nvidia-smi prints: a recording, and documents built by hand."""

from pathlib import Path

from andon.model.device import SAMPLE_VALUES, Reading, State

RECORDED = Path(__file__).parents[1] / "recorded" / "nvidia"
H200 = (RECORDED / "h200-580.159.04-smi.xml").read_text(encoding="utf-8")


def log(*gpus: str, driver: str = "535.86.05", schema: str = "v12") -> str:
    return (
        f'<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_{schema}.dtd">\n'
        f"<nvidia_smi_log>\n<driver_version>{driver}</driver_version>\n{''.join(gpus)}\n"
        "</nvidia_smi_log>\n"
    )


def gpu(body: str, bus: str = "00000000:01:00.0", number: int = 1) -> str:
    uuid = f"<uuid>GPU-{number:08x}-0000-0000-0000-000000000000</uuid>"
    return f'<gpu id="{bus}"><product_name>NVIDIA X</product_name>{uuid}{body}</gpu>'


def check(readings: list[Reading]) -> None:
    """Every value that is None has a reason, and no other."""
    for reading in readings:
        if reading.sample is None:
            assert reading.state is not State.OK
            assert reading.reason
            continue
        unknown = {n for n in SAMPLE_VALUES if getattr(reading.sample, n) is None}
        assert unknown == set(reading.missing) - {"processes"}
        assert all(reason.strip() for reason in reading.missing.values())


ODD = (
    "[N/A]", "N/A", "[Not Supported]", "Not Supported", "[Unknown Error]", "Unknown Error", "ERR!",
    "[GPU is lost]", "GPU is lost", "Requested functionality has been deprecated",
    "Insufficient Permissions", "[Insufficient Permissions]", "No data", "-", "1 2", "0x12",
    "12 KB",
)  # fmt: skip
MIG = """<mig_mode><current_mig>Enabled</current_mig></mig_mode><mig_devices>
  <mig_device><index>0</index><gpu_instance_id>3</gpu_instance_id>
    <compute_instance_id>0</compute_instance_id><fb_memory_usage><total>4864 MiB</total>
    <reserved>0 MiB</reserved><used>100 MiB</used><free>4764 MiB</free></fb_memory_usage>
  </mig_device>
  <mig_device><index>1</index><gpu_instance_id>5</gpu_instance_id>
    <compute_instance_id>0</compute_instance_id><fb_memory_usage><total>4864 MiB</total>
    <used>N/A</used></fb_memory_usage></mig_device></mig_devices>
  <fb_memory_usage><total>40960 MiB</total><used>N/A</used></fb_memory_usage>
  <utilization><gpu_util>N/A</gpu_util></utilization>
  <processes><process_info><gpu_instance_id>3</gpu_instance_id>
    <compute_instance_id>0</compute_instance_id><pid>77</pid><type>C</type>
    <process_name>x</process_name><used_memory>90 MiB</used_memory></process_info></processes>"""
MIG_LIST = """GPU 0: NVIDIA X (UUID: GPU-00000001-0000-0000-0000-000000000000)
  MIG 1g.5gb      Device  0: (UUID: MIG-aaaa0000-0000-0000-0000-000000000000)
  MIG 1g.5gb+me   Device  1: (UUID: MIG-bbbb0000-0000-0000-0000-000000000000)
"""


SCRIPT = """#!/bin/sh
here={folder}
case "$1" in
  -q) key=xml ;;
  -L) key=list ;;
esac
echo "$*" >> "$here/calls"
if [ -e "$here/$key.flood" ]; then exec yes; fi
if [ -e "$here/$key.hang" ]; then sleep 600 & echo $! > "$here/child"; wait; fi
if [ -e "$here/$key.errors" ]; then cat "$here/$key.errors" >&2; fi
if [ -e "$here/$key" ]; then cat "$here/$key"; fi
if [ -e "$here/$key.code" ]; then exit "$(cat "$here/$key.code")"; fi
"""


class Fake:
    """An nvidia-smi whose answers are files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "nvidia-smi"
        folder.mkdir(parents=True, exist_ok=True)
        self.path.write_text(SCRIPT.format(folder=folder))
        self.path.chmod(0o755)

    def says(self, key: str, text: str = "", code: int = 0, errors: str = "") -> None:
        (self.folder / key).write_text(text)
        (self.folder / f"{key}.code").write_text(str(code))
        (self.folder / f"{key}.errors").write_text(errors)

    def does(self, key: str, what: str, really: bool = True) -> None:
        path = self.folder / f"{key}.{what}"
        path.touch() if really else path.unlink()

    def calls(self) -> list[str]:
        try:
            return (self.folder / "calls").read_text().splitlines()
        except FileNotFoundError:
            return []
