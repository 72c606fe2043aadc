"""Checks the operating system: the kernel's health, the visibility of /proc, the clock."""

from collections.abc import Iterator

from andon.doctor.rules.facts import MachineFacts
from andon.doctor.rules.findings import Check, CheckResult, failure, ok, unknown, warning
from andon.model.vendors import VENDORS, vendor_of

BUILT_AT = 1_735_689_600.0  # 2025-01-01: andon did not exist before
CENTURY_SECONDS = 75 * 365.25 * 86400
_TAINTS = {  # taint bits of a kernel in trouble; the others are about modules
    4: "a processor or memory error (machine check)",
    5: "a bad page",
    7: "a kernel oops",
    9: "a kernel warning",
    14: "a soft lockup",
}
_GRAVE = (4, 5, 7, 14)
_SEEN = ("", "0", "off")
_ALL = {"1": "the details of", "noaccess": "the details of"}


def judge(facts: MachineFacts) -> Iterator[CheckResult]:
    yield _kernel(facts)
    if facts.kernel.wsl:
        message = "Windows Subsystem for Linux: some values and names of other programs are missing"
        yield ok(Check.WSL, message, wsl=True)
    if facts.expects_nvidia or any(vendor_of(card.vendor).logs_errors for card in facts.cards):
        yield _log(facts)
    yield _processes(facts)
    if facts.containers.own_pids:
        yield _namespace(facts)
    yield _clock(facts)
    yield from _slurm(facts)


def _slurm(facts: MachineFacts) -> Iterator[CheckResult]:
    """Explains what is different in a job of Slurm and on its login node; none of it is a fault."""
    slurm = facts.slurm
    if slurm.job:
        given = f"with GPU {slurm.gpus}" if slurm.gpus else "without a GPU: ask with --gpus"
        message = f"this is Slurm job {slurm.job} on {slurm.node or 'its node'}, {given}"
        yield ok(Check.SLURM_JOB, message, job=slurm.job)
    elif facts.on_login_node:
        message = (
            "a login node of Slurm, without GPUs: work goes to the nodes, "
            "andon submit --on slurm --gpus 1 -- COMMAND"
        )
        yield ok(Check.SLURM_LOGIN, message)
    if slurm.private_tmp and facts.own.book_place.startswith("/tmp/"):  # noqa: S108
        message = (
            "the job has a /tmp of its own: leases there are between its processes, and Slurm "
            "keeps jobs apart; sudo andon setup on the node makes a book for all"
        )
        yield ok(Check.SLURM_TMP, message)


def _kernel(facts: MachineFacts) -> CheckResult:
    kernel = facts.kernel
    name = f"Linux {kernel.release} ({kernel.machine})" if kernel.release else "the kernel"
    taint = kernel.taint or 0
    grave = [
        taint_name for bit, taint_name in _TAINTS.items() if taint >> bit & 1 and bit in _GRAVE
    ]
    place = {"release": kernel.release, "taint": kernel.taint}
    if grave:
        message = f"{name} has seen {' and '.join(grave)} since it started"
        fix = "sudo dmesg --level=err,crit,alert,emerg | tail -50"
        return warning(Check.KERNEL_TAINTED, message, fix, **place)
    noted = ", with a kernel warning" if taint >> 9 & 1 else ""
    return ok(Check.KERNEL, name + (f", taint {taint}" if taint else "") + noted, **place)


def _log(facts: MachineFacts) -> CheckResult:
    """Reports whether driver messages can be read; NVML reports Xids without them."""
    why = facts.kernel.log_closed
    if why is None:
        message = "the kernel log is readable, so driver errors are noticed"
        return ok(Check.LOG_READABLE, message)
    if facts.security.dmesg_restrict:
        why += ", kernel.dmesg_restrict=1"
    message = f"{facts.user.name} cannot read the kernel log ({why}): only NVML reports errors"
    return ok(Check.LOG_UNREADABLE, message, reason=why)


def _processes(facts: MachineFacts) -> CheckResult:
    proc = facts.proc
    if proc.hidepid in _SEEN or proc.let_off:
        return ok(
            Check.PROC_VISIBLE, "the processes of all users are visible", hidepid=proc.hidepid
        )
    hidden = _ALL.get(proc.hidepid, "all of")
    message = (
        f"/proc hides {hidden} other users' processes (hidepid={proc.hidepid}): their names are "
        "missing, and lease holders cannot be verified"
    )
    fix = "sudo mount -o remount,hidepid=0 /proc"
    if proc.group:
        fix = f"sudo usermod -aG $(getent group {proc.group} | cut -d: -f1) {facts.user.name}"
    return warning(Check.PROC_HIDDEN, message, fix, hidepid=proc.hidepid)


def _namespace(facts: MachineFacts) -> CheckResult:
    message = "this container has its own pid namespace, but the driver reports the host's pids"
    if not any(facts.answers(vendor.name) for vendor in VENDORS):
        return ok(Check.OWN_PID_NAMESPACE, message, own=True)
    return warning(Check.OWN_PID_NAMESPACE, message, "docker run --pid=host ...", own=True)


def _clock(facts: MachineFacts) -> CheckResult:
    clock = facts.clock
    place = {"at": clock.at, "synchronised": clock.synchronised}
    if not BUILT_AT <= clock.at < BUILT_AT + CENTURY_SECONDS:
        message = f"the clock is wrong: it says {clock.at:.0f} s since 1970"
        return failure(Check.CLOCK_WRONG, message, "sudo timedatectl set-ntp true", **place)
    if clock.synchronised is None:
        return unknown(Check.CLOCK, "it is unknown whether the clock is synchronised", **place)
    if clock.synchronised:
        return ok(Check.CLOCK, "the clock is synchronised", **place)
    message = "the clock is not synchronised: records of several machines will not line up"
    return warning(Check.CLOCK_UNSYNCHRONISED, message, "sudo timedatectl set-ntp true", **place)
