"""Machines made of small files, as the kernel's documents and drivers fix them.

No machine with such a card was at hand: each file's name and unit is taken from the source that its
builder names. A builder returns what a machine is made of; `build` puts it into a folder.
"""

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, field

Content = str | bytes


class Machine(Struct):
    """Files by path, and links by path, all relative to the root."""

    files: dict[str, Content] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)

    def add(self, folder: str, files: Mapping[str, Content | int]) -> None:
        """Files of one folder; a number is written as the kernel does, with a line's end."""
        for name, content in files.items():
            text = f"{content}\n" if isinstance(content, int) else content
            self.files[f"{folder}/{name}"] = text

    def pci(self, address: str, driver: str, under: str = "") -> str:
        """A device on the bus, bound to a driver; returns its real folder."""
        place = f"sys/devices/pci0000:00/{under}{address}"
        self.links[f"sys/bus/pci/devices/{address}"] = f"../../../../{place}"
        self.links[f"sys/bus/pci/drivers/{driver}/{address}"] = f"../../../../../{place}"
        return place

    def process(self, pid: int, name: str, descriptors: Mapping[int, tuple[str, str]]) -> None:
        """A process with open files: number -> (what the link says, what fdinfo says)."""
        folder = f"proc/{pid}"
        self.files[f"{folder}/stat"] = stat(pid, name)
        self.files[f"{folder}/cmdline"] = f"{name}\0"
        self.files[f"{folder}/status"] = "Name:\tx\nUid:\t1000\t1000\t1000\t1000\n"
        for number, (target, text) in descriptors.items():
            self.links[f"{folder}/fd/{number}"] = target
            self.files[f"{folder}/fdinfo/{number}"] = text

    def build(self, root: Path) -> Path:
        for folder in {path.rpartition("/")[0] for path in (*self.files, *self.links)}:
            (root / folder).mkdir(parents=True, exist_ok=True)
        for path, content in self.files.items():
            (root / path).write_bytes(content.encode() if isinstance(content, str) else content)
        for path, target in self.links.items():
            (root / path).symlink_to(target)
        return root


def stat(pid: int, name: str, flags: int = 0x400000) -> str:
    """/proc/<pid>/stat, proc_pid_stat(5): the flags stand ninth, the start time 22nd."""
    return (
        f"{pid} ({name}) S 1 {pid} {pid} 0 -1 {flags} "
        + " ".join(["0"] * 12)
        + " 5000"
        + (" 0" * 30)
        + "\n"
    )


def host(kernel: str = "6.12.0") -> Machine:
    """What every Linux machine has; pid 2 of the first namespace is kthreadd."""
    machine = Machine()
    machine.add(
        "proc",
        {
            "meminfo": "MemTotal:       32000000 kB\nMemFree:         1000000 kB\n"
            "MemAvailable:   20000000 kB\n",
            "stat": "cpu  100 0 100 1000 0 0 0 0 0 0\nbtime 1700000000\n",
            "loadavg": "0.50 0.40 0.30 1/300 4000\n",
            "2/comm": "kthreadd\n",
            "2/stat": stat(2, "kthreadd", flags=0x208040),
            "sys/kernel/osrelease": f"{kernel}\n",
            "sys/kernel/random/boot_id": "00000000-0000-4000-8000-000000000001\n",
        },
    )
    (machine.links)["proc/1/fd/0"] = "/dev/null"
    machine.files["proc/1/stat"] = stat(1, "init")
    return machine
