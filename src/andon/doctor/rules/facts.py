"""Facts about a machine, gathered by doctor/inspection and checked here."""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct, field

from andon.host.rules.nvml_library import Library
from andon.jobs.rules.log_out import LogOutFacts
from andon.model.device import DeviceStatus, Snapshot, State
from andon.settings.table import USUAL_PORT

# Facts about who could read, forge or replace what, gathered by doctor/inspection/security.


class StrayReason(StrEnum):
    """Why a file in a lease book is not an ordinary entry."""

    NOT_A_FILE = "not_a_file"  # a link, a pipe, a socket, a folder or a device
    MALFORMED = "malformed"  # its content is not an entry of this version
    CLOSED = "closed"  # other users cannot read it
    UNLOCKED = "unlocked"  # no process holds it, and it is old


class StrayFiles(Struct, frozen=True):
    """How many odd files of one kind a user has in one book, without their names."""

    odd: StrayReason
    owner: str
    uid: int
    count: int = 1


class Contents(Struct, frozen=True):
    """Contents of a lease book. `counts` lists the users with the most files, hidden included."""

    strays: tuple[StrayFiles, ...] = ()
    counts: tuple[tuple[str, int, int], ...] = ()  # owner, uid, files
    complete: bool = True  # False: there was more than is examined
    closed: bool = False  # the book, or a part of it, cannot be listed


class FileAccess(Struct, frozen=True):
    """A file or folder that andon relies on: its owner, and who else can access it."""

    name: str  # its purpose: token, history, ...
    path: str
    owner: str
    uid: int
    mode: int = 0o600
    kind: str = "file"  # file, folder, link, other


class PortListener(Struct, frozen=True):
    """A socket that listens on a TCP port of this machine."""

    address: str
    port: int
    owner: str
    uid: int
    loopback: bool = True


class RunningServer(Struct, frozen=True):
    """The contents of this user's server.json; `lives`: its process runs and is this user's."""

    path: str
    port: int
    tls: bool = False
    lives: bool = True


class Security(Struct, frozen=True):
    """All security facts."""

    state: tuple[FileAccess, ...] = ()  # the folder first, then its existing files
    above: tuple[FileAccess, ...] = ()  # its parent folders, nearest first
    unseen: str = ""  # why the state folder was not examined
    config: FileAccess | None = None
    server: RunningServer | None = None
    listeners: tuple[PortListener, ...] = ()  # on the usual port and on the server's own
    usual_port: int = USUAL_PORT
    protected_hardlinks: bool | None = None
    dmesg_restrict: bool | None = None
    kptr_restrict: int | None = None


class PciCard(Struct, frozen=True):
    """One display or compute controller, as the kernel lists it without waking it."""

    pci: str
    vendor: str  # a name of model/vendors.py
    driver: str | None = None
    power_status: str = ""  # active, suspended, unsupported
    power_control: str = ""  # on: never suspended; auto: when idle


class Kernel(Struct, frozen=True):
    """What the kernel reports about itself and its drivers."""

    release: str = ""
    machine: str = ""
    taint: int | None = None
    secure_boot: bool | None = None
    modules: tuple[str, ...] = ()  # of those that drive GPUs
    nvidia_version: str | None = None
    nvidia_open: bool = False  # the open flavour of NVIDIA's module
    counters_restricted: bool | None = None
    persistenced: bool = False
    battery: bool = False
    wsl: bool = False
    distribution: tuple[str, ...] = ()  # ID and ID_LIKE of os-release
    log_closed: str | None = None  # why its log cannot be followed; None if it can


class DeviceFile(Struct, frozen=True):
    """A device file and whether this user can open it for reading and writing."""

    path: str
    mode: int = 0o666
    group: str = "root"
    usable: bool = True


class CallingUser(Struct, frozen=True):
    """The calling user. A group joined since the login is in the file but not in the session."""

    name: str = "user"
    uid: int = 1000
    groups: tuple[str, ...] = ()
    listed_groups: tuple[str, ...] = ()
    profiles: bool = False  # has a capability for counters that are restricted


class Specification(Struct, frozen=True):
    """A CDI file: the driver versions in its paths."""

    path: str
    versions: tuple[str, ...] = ()


class Containers(Struct, frozen=True):
    """Whether this is a container, and the host's support for containers."""

    inside: str = ""  # docker, podman, kubernetes, lxc, ...; empty: no container
    own_pids: bool | None = None  # in a separate pid namespace
    tools: tuple[str, ...] = ()
    docker_installed: bool = False
    docker_runtime: bool = False  # the nvidia runtime is in daemon.json
    docker_socket: str = ""  # usable, denied, or empty if there is none
    specifications: tuple[Specification, ...] = ()
    char_links: bool | None = None  # /dev/char has NVIDIA's nodes; None if there are no nodes
    cgroup: str = ""  # v1, v2, hybrid, or empty


class ProcVisibility(Struct, frozen=True):
    """How much of other users' processes is visible."""

    hidepid: str = ""
    group: int | None = None  # the exempt group
    let_off: bool = False


class Clock(Struct, frozen=True):
    """The wall clock now; `synchronised` according to the kernel."""

    at: float = 0.0
    synchronised: bool | None = None


class Folder(Struct, frozen=True):
    """A folder of andon's, or its nearest existing parent."""

    path: str
    exists: bool = False
    writable: bool = True
    free_bytes: int | None = None
    kind: str = ""  # of its file system
    remote: bool = False  # not examined: a network file system can block forever


class BookFolder(Struct, frozen=True):
    """A lease book: a folder and its owner."""

    path: str
    owner: str
    uid: int
    mode: int = 0o755
    link: bool = False
    leases_mode: int | None = 0o1777
    contents: Contents = field(default_factory=Contents)


class Installation(Struct, frozen=True):
    """andon itself."""

    version: str = ""
    python: str = ""
    packages: Mapping[str, str | None] = field(default_factory=dict)  # None: not installed
    old_pynvml: str | None = None
    config: str | None = None
    changed: int = 0  # settings that are not the default
    mistakes: tuple[str, ...] = ()
    state: Folder = Folder("")
    books: tuple[BookFolder, ...] = ()
    book_place: str = ""  # the one in use; the first lease creates it
    reserved_in: BookFolder | None = None  # outside the book, which a reboot empties
    reserved_closed: bool = False  # to others, so that it does not count
    encoding: str = "utf-8"
    columns: int = 80
    color: bool = False


class PolicyFacts(Struct, frozen=True):
    """Root's limits as text, and what each user used lately; `mistake` if none can apply."""

    path: str = ""
    exists: bool = False
    everyone: str = ""
    own: str = ""  # the calling user's
    users: tuple[str, ...] = ()  # who has a section
    usage: tuple[tuple[str, float], ...] = ()  # user and GPU hours, most first
    mistake: str = ""
    fix: str = ""


class SampleTrial(Struct, frozen=True):
    """One sample through the sampler, and how long it took."""

    snapshot: Snapshot | None = None
    seconds: float = 0.0
    reason: str = ""  # why there is none
    hint: str = ""


class SlurmFacts(Struct, frozen=True):
    """The Slurm job that this is, and whether Slurm's commands are here and know their Slurm."""

    job: str = ""  # its number; empty: not in a job
    node: str = ""
    gpus: str = ""  # as Slurm numbers them on the node
    commands: bool = False
    private_tmp: bool = False  # /tmp is this job's alone


class OutgoingReports(Struct, frozen=True):
    """What this user's server or agent sends to a hub, or to another system."""

    name: str  # "the hub", "export grafana"
    place: str  # its address
    start: str  # the command that sends it
    acknowledged: float | None = None  # when something last was; None if nothing ever
    since: float | None = None  # when what waits began to; None if nothing does
    waiting: int = 0  # requests in its queue on disk
    size_bytes: int = 0
    dropped: int = 0
    trouble: tuple[str, ...] = ("", "")  # why nothing is taken now, and what to do


class Reporting(Struct, frozen=True):
    """All that goes to others, and whether a process of this user sends it now."""

    sends: bool = False
    links: tuple[OutgoingReports, ...] = ()


class MachineFacts(Struct, frozen=True):
    """All facts about a machine; elsewhere than on Linux only its readings and andon itself."""

    linux: bool = True
    kernel: Kernel = Kernel()
    cards: tuple[PciCard, ...] = ()
    libraries: tuple[Library, ...] = ()
    nodes: tuple[DeviceFile, ...] = ()
    user: CallingUser = CallingUser()
    containers: Containers = Containers()
    proc: ProcVisibility = ProcVisibility()
    clock: Clock = Clock()
    own: Installation = Installation()
    security: Security = field(default_factory=Security)
    masks: Mapping[str, str] = field(default_factory=dict)  # the variables of sampling.rules.masks
    trial: SampleTrial = SampleTrial()
    policy: PolicyFacts = PolicyFacts()
    log_out: LogOutFacts = field(default_factory=LogOutFacts)
    slurm: SlurmFacts = SlurmFacts()
    reporting: Reporting = Reporting()

    @property
    def devices(self) -> tuple[DeviceStatus, ...]:
        return self.trial.snapshot.devices if self.trial.snapshot else ()

    def answers(self, vendor: str) -> bool:
        """Whether a device of this vendor was read, or is asleep and was left alone."""
        fine = (State.OK, State.ASLEEP)
        return any(d.device.vendor == vendor and d.state in fine for d in self.devices)

    @property
    def anything_answers(self) -> bool:
        return any(self.answers(status.device.vendor) for status in self.devices)

    @property
    def on_login_node(self) -> bool:
        """Whether this is a machine of a Slurm without GPUs, from which work is sent to nodes."""
        none = not (self.devices or self.cards or self.expects_nvidia)
        return none and self.slurm.commands and not self.slurm.job

    @property
    def expects_nvidia(self) -> bool:
        """Whether there is any sign of NVIDIA here."""
        return (
            any(card.vendor == "nvidia" for card in self.cards)
            or self.kernel.nvidia_version is not None
            or "nvidia" in self.kernel.modules
            or bool(self.libraries)
            or any(node.path.startswith("/dev/nvidia") for node in self.nodes)
        )
