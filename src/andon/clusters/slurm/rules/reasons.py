"""Slurm's codes for why a job waits or how it ended, in a sentence each, and what would help."""

from typing import Final, NamedTuple

from andon.model.job.cluster import ClusterReason


class CodeWords(NamedTuple):
    """What a code means, and what the person who waits can do."""

    text: str
    advice: str = ""


_LIMIT: Final = "see what runs: andon jobs; or ask your administrator for more"
_DOWN: Final = "ask your administrator; andon nodes --on shows their states"
WAITING: Final = {
    "Resources": CodeWords("it is next, and waits for GPUs, processors or memory to become free"),
    "Priority": CodeWords("other jobs come first", "a shorter --for may let it start in a gap"),
    "Dependency": CodeWords("it waits for the jobs that it comes after"),
    "DependencyNeverSatisfied": CodeWords(
        "a job that it comes after did not succeed", "andon cancel it, and submit it again"
    ),
    "BeginTime": CodeWords("it waits for its time to begin"),
    "JobHeldUser": CodeWords("its owner holds it", "scontrol release ID"),
    "JobHeldAdmin": CodeWords("an administrator holds it", "ask your administrator"),
    "JobArrayTaskLimit": CodeWords("as many of its array run as may run at once"),
    "PartitionTimeLimit": CodeWords(
        "its time limit is longer than the partition allows: it will never start",
        "submit it again with a shorter --for, or another partition",
    ),
    "PartitionNodeLimit": CodeWords(
        "it asks for more nodes than the partition has: it will never start",
        "use another partition",
    ),
    "PartitionDown": CodeWords("its partition is closed", _DOWN),
    "PartitionInactive": CodeWords("its partition is closed", _DOWN),
    "PartitionConfig": CodeWords("its partition does not allow it", "use another partition"),
    "ReqNodeNotAvail": CodeWords("a node that it needs is not available", _DOWN),
    "NodeDown": CodeWords("a node that it needs is down", _DOWN),
    "BadConstraints": CodeWords("no node can ever meet its request", "ask for less"),
    "Reservation": CodeWords("it waits for its reservation"),
    "Reserved": CodeWords("the nodes that it needs are reserved", _DOWN),
    "Licenses": CodeWords("it waits for a licence"),
    "Prolog": CodeWords("its node is being prepared"),
    "Cleaning": CodeWords("its node is being cleaned after its last start"),
    "InvalidAccount": CodeWords("its account is not valid", "--engine-option=--account=NAME"),
    "InvalidQOS": CodeWords("its quality of service is not valid", "--engine-option=--qos=NAME"),
    "AccountNotAllowed": CodeWords("its account may not use the partition", "use another"),
    "QOSNotAllowed": CodeWords("its quality of service may not use the partition", "use another"),
    "AssociationJobLimit": CodeWords("your account has as many jobs as it may", _LIMIT),
    "AssocMaxJobsLimit": CodeWords("your account runs as many jobs as it may", _LIMIT),
    "AssocGrpGRES": CodeWords("your account uses as many GPUs as it may", _LIMIT),
    "AssocGrpJobsLimit": CodeWords("your account runs as many jobs as it may", _LIMIT),
    "AssocMaxGRESPerJob": CodeWords(
        "it asks for more GPUs than one job of your account may have: it will never start",
        "ask for fewer",
    ),
    "QOSMaxJobsPerUserLimit": CodeWords("you run as many jobs as you may", _LIMIT),
    "QOSMaxGRESPerUser": CodeWords("you use as many GPUs as you may", _LIMIT),
    "QOSMaxGRESPerJob": CodeWords(
        "it asks for more GPUs than one job may have: it will never start", "ask for fewer"
    ),
    "QOSMaxSubmitJobPerUserLimit": CodeWords("you have submitted as many jobs as you may", _LIMIT),
    "QOSMaxWallDurationPerJobLimit": CodeWords(
        "its time limit is longer than its quality of service allows: it will never start",
        "submit it again with a shorter --for",
    ),
    "QOSGrpGRES": CodeWords("all users together use as many GPUs as they may", _LIMIT),
    "MaxGRESPerAccount": CodeWords("your account uses as many GPUs as it may", _LIMIT),
    "MaxJobsPerAccount": CodeWords("your account runs as many jobs as it may", _LIMIT),
    "launch failed requeued held": CodeWords(
        "its node could not start it, and Slurm holds it", "scontrol release ID to try again"
    ),
    "job requeued in held state": CodeWords("it was put back and is held", "scontrol release ID"),
}
_ENDED: Final = {
    "TIMEOUT": "it reached its time limit",
    "DEADLINE": "it did not end before its deadline",
    "OUT_OF_MEMORY": "it used more of the node's memory than it asked for",
    "NODE_FAIL": "its node failed",
    "BOOT_FAIL": "its node did not start",
    "LAUNCH_FAILED": "its node could not start it",
    "PREEMPTED": "a job with a higher priority took its place",
    "REVOKED": "another cluster runs it",
}
_DEAD: Final = ("DependencyNeverSatisfied", "Dependency")
SHORT_OF: Final = ("Resources", "Priority")
"""The codes of a job that may start once there is room."""


def words_of(code: str) -> CodeWords:
    """Returns what a code means; one that is not known, in Slurm's own words."""
    known = WAITING.get(code)
    if known is None and "," in code:  # ReqNodeNotAvail, UnavailableNodes:n1
        known = WAITING.get(code.split(",")[0])
    if known is None and code.startswith("Nodes required for job are DOWN"):
        known = CodeWords("the nodes that it needs are down, drained or reserved", _DOWN)
    return known or CodeWords(f"Slurm says {code!r}" if code else "Slurm has not looked at it yet")


def waiting_words(code: str) -> str:
    return words_of("" if code == "None" else code).text


def ended_words(state: str, reason: str, code: int, number: int) -> str | None:
    """Returns how a job ended; None if it succeeded."""
    kind, _, by = state.partition(" by ")
    if kind == "COMPLETED":
        return None
    if kind == "CANCELLED":
        if reason in _DEAD:
            return "cancelled: a job that it comes after did not succeed"
        return f"cancelled by user {by}" if by else "cancelled"
    if kind in _ENDED:
        return _ENDED[kind]
    if reason == "BadConstraints":
        return WAITING[reason].text
    return f"killed by signal {number}" if number else f"exit code {code}"


def array_words(throttle: str) -> str:
    return f"at most {throttle} of its tasks run at once (%{throttle})"


def reason_of(code: str) -> ClusterReason:
    found = words_of(code)
    return ClusterReason(found.text, found.advice)
