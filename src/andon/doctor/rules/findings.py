"""The result of a check: a grade, the numbers, and a command that fixes it, or a hint."""

from collections.abc import Iterable, Mapping
from enum import StrEnum

from msgspec import Struct, field
from msgspec.structs import replace

Value = str | int | float | bool | None

FINE, FAILED, NO_DEVICE = 0, 1, 3


class Grade(StrEnum):
    """How bad a finding is; listed in this order."""

    FAILURE = "failure"
    WARNING = "warning"
    UNKNOWN = "unknown"  # it could not be checked here
    OK = "ok"


class FindingName(StrEnum):
    """The name of a finding, and the area of the machine that it is about."""

    area: str

    def __new__(cls, value: str, area: str) -> "FindingName":
        made = str.__new__(cls, value)
        made._value_ = value
        made.area = area
        return made


class Check(FindingName):
    """Every finding of `andon doctor`."""

    DEVICES_RESPOND = "devices_respond", "devices"
    DEVICES_SIMULATED = "devices_simulated", "devices"
    DEVICES_ASLEEP = "devices_asleep", "devices"
    NO_DEVICE = "no_device", "devices"
    READER_FAULT = "reader_fault", "devices"
    DEVICE_STALE = "device_stale", "devices"
    DEVICE_LOST = "device_lost", "devices"
    DEVICES_MISSING = "devices_missing", "devices"
    SLOW_START = "slow_start", "devices"
    CHECKED = "checked", "devices"
    CHECK_FAILED = "check_failed", "devices"
    MASK = "mask", "devices"
    MASK_HIDES_ALL = "mask_hides_all", "devices"
    MASK_AMBIGUOUS = "mask_ambiguous", "devices"

    DRIVER_LOADED = "driver_loaded", "driver"
    DRIVER_NOT_LOADED = "driver_not_loaded", "driver"
    NOUVEAU = "nouveau", "driver"
    CARD_UNBOUND = "card_unbound", "driver"
    PASSED_THROUGH = "passed_through", "driver"
    NO_CARD = "no_card", "driver"
    SECURE_BOOT = "secure_boot", "driver"
    VERSIONS_MATCH = "versions_match", "driver"
    VERSION_MISMATCH = "version_mismatch", "driver"
    SUSPENDED = "suspended", "driver"
    KEPT_AWAKE = "kept_awake", "driver"
    PERSISTENCE = "persistence", "driver"
    ECC = "ecc", "driver"
    COUNTERS_OPEN = "counters_open", "driver"
    COUNTERS_RESTRICTED = "counters_restricted", "driver"

    LIBRARY_FOUND = "library_found", "library"
    LIBRARY_MISSING = "library_missing", "library"
    LIBRARY_OFF_PATH = "library_off_path", "library"
    LIBRARY_EMPTY = "library_empty", "library"
    LIBRARY_FOREIGN = "library_foreign", "library"
    LIBRARY_STUB = "library_stub", "library"
    LIBRARY_NOT_WSL = "library_not_wsl", "library"

    NODES_USABLE = "nodes_usable", "access"
    NODE_MISSING = "node_missing", "access"
    UVM_MISSING = "uvm_missing", "access"
    NODE_DENIED = "node_denied", "access"
    GROUP_PENDING = "group_pending", "access"

    NO_CONTAINER = "no_container", "container"
    IN_CONTAINER = "in_container", "container"
    CONTAINER_NO_GPU = "container_no_gpu", "container"
    TOOLKIT_READY = "toolkit_ready", "container"
    TOOLKIT_MISSING = "toolkit_missing", "container"
    TOOLKIT_NOT_CONFIGURED = "toolkit_not_configured", "container"
    CDI_OUTDATED = "cdi_outdated", "container"
    CHAR_LINKS_MISSING = "char_links_missing", "container"
    DOCKER_READABLE = "docker_readable", "container"
    DOCKER_UNREADABLE = "docker_unreadable", "container"
    CGROUPS = "cgroups", "container"
    NO_CGROUPS = "no_cgroups", "container"

    KERNEL = "kernel", "system"
    KERNEL_TAINTED = "kernel_tainted", "system"
    WSL = "wsl", "system"
    LOG_READABLE = "log_readable", "system"
    LOG_UNREADABLE = "log_unreadable", "system"
    PROC_VISIBLE = "proc_visible", "system"
    PROC_HIDDEN = "proc_hidden", "system"
    OWN_PID_NAMESPACE = "own_pid_namespace", "system"
    CLOCK = "clock", "system"
    CLOCK_UNSYNCHRONISED = "clock_unsynchronised", "system"
    CLOCK_WRONG = "clock_wrong", "system"
    LOG_OUT = "log_out", "system"
    LOG_OUT_ENDS_JOBS = "log_out_ends_jobs", "system"
    SLURM_JOB = "slurm_job", "system"
    SLURM_LOGIN = "slurm_login", "system"
    SLURM_TMP = "slurm_tmp", "system"

    SETTINGS = "settings", "andon"
    SETTINGS_WRONG = "settings_wrong", "andon"
    STATE = "state", "andon"
    STATE_NOT_WRITABLE = "state_not_writable", "andon"
    STATE_FULL = "state_full", "andon"
    STATE_REMOTE = "state_remote", "andon"
    VERSIONS = "versions", "andon"
    PACKAGE_MISSING = "package_missing", "andon"
    PYNVML_SHADOWED = "pynvml_shadowed", "andon"
    REPORTS = "reports", "andon"
    REPORTS_WAIT = "reports_wait", "andon"
    REPORTS_STOPPED = "reports_stopped", "andon"
    TERMINAL = "terminal", "andon"
    TERMINAL_ASCII = "terminal_ascii", "andon"

    BOOK = "book", "security"
    BOOK_FOREIGN = "book_foreign", "security"
    BOOK_IGNORED = "book_ignored", "security"
    BOOK_UNSAFE = "book_unsafe", "security"
    RESERVATIONS_FOREIGN = "reservations_foreign", "security"
    BOOK_MALFORMED = "book_malformed", "security"
    BOOK_LEFTOVERS = "book_leftovers", "security"
    BOOK_CROWDED = "book_crowded", "security"
    POLICY = "policy", "security"
    POLICY_WRONG = "policy_wrong", "security"
    RECENT_USAGE = "recent_usage", "security"
    STATE_PRIVATE = "state_private", "security"
    STATE_EXPOSED = "state_exposed", "security"
    TOKEN_EXPOSED = "token_exposed", "security"
    RECORDS_EXPOSED = "records_exposed", "security"
    CONFIG_EXPOSED = "config_exposed", "security"
    SERVER = "server", "security"
    SERVER_WITHOUT_TLS = "server_without_tls", "security"
    SERVER_GONE = "server_gone", "security"
    PORT_FOREIGN = "port_foreign", "security"
    LINKS_PROTECTED = "links_protected", "security"
    LINKS_UNPROTECTED = "links_unprotected", "security"


class CheckResult(Struct, frozen=True):
    """One result: what was found, and a command that fixes it or, without one, a hint."""

    check: FindingName
    grade: Grade
    message: str
    fix: str = ""
    evidence: Mapping[str, Value] = field(default_factory=dict)
    hint: str = ""


def ok(check: FindingName, message: str, **evidence: Value) -> CheckResult:
    return CheckResult(check, Grade.OK, message, evidence=evidence)


def unknown(check: FindingName, message: str, **evidence: Value) -> CheckResult:
    return CheckResult(check, Grade.UNKNOWN, message, evidence=evidence)


def warning(check: FindingName, message: str, fix: str, **evidence: Value) -> CheckResult:
    return CheckResult(check, Grade.WARNING, message, fix, evidence)


def failure(check: FindingName, message: str, fix: str, **evidence: Value) -> CheckResult:
    return CheckResult(check, Grade.FAILURE, message, fix, evidence)


def hinted(finding: CheckResult, hint: str) -> CheckResult:
    """Returns the finding with advice that is not a command."""
    return replace(finding, hint=hint)


def in_order(findings: Iterable[CheckResult]) -> list[CheckResult]:
    """Returns the worst first; unchanged within a grade."""
    order = list(Grade)
    return sorted(findings, key=lambda finding: order.index(finding.grade))


def worst(findings: Iterable[CheckResult]) -> Grade:
    """Returns the overall grade; what could not be checked does not count."""
    grades = {finding.grade for finding in findings} - {Grade.UNKNOWN}
    return next((grade for grade in Grade if grade in grades), Grade.OK)


def exit_code(findings: Iterable[CheckResult], no_device: FindingName) -> int:
    """Returns 3 if no device can be read, 1 for any other failure; a warning is none."""
    failed = {f.check for f in findings if f.grade is Grade.FAILURE}
    if no_device in failed:
        return NO_DEVICE
    return FAILED if failed else FINE
