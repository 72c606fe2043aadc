"""Explains in a sentence why Slurm says that a job waits, how it ended or why it is refused."""

from collections.abc import Sequence
from typing import Final

from andon.clusters.rules.refusals import Meaning, Refusals, refused
from andon.errors import AndonError, Denied, Gone, Invalid, Unavailable
from andon.model.job.cluster import NotSent
from andon.model.job.desk import JobReason as Why
from andon.units import plain

_LIMIT: Final = "see what runs: andon jobs; or ask your administrator for more"
_DOWN: Final = "ask your administrator; andon nodes --on shows their states"
BAD: Final = "BadConstraints"
WAITING: Final = {
    "Resources": Why("it is next, and waits for GPUs, processors or memory to become free"),
    "Priority": Why("other jobs come first", "a shorter --for may let it start in a gap"),
    "Dependency": Why("it waits for the jobs that it comes after"),
    "DependencyNeverSatisfied": Why(
        "a job that it comes after did not succeed", "andon cancel it, and submit it again"
    ),
    "BeginTime": Why("it waits for its time to begin"),
    "JobHeldUser": Why("its owner holds it", "scontrol release ID"),
    "JobHeldAdmin": Why("an administrator holds it", "ask your administrator"),
    "JobArrayTaskLimit": Why("as many of its array run as may run at once"),
    "PartitionTimeLimit": Why(
        "its time limit is longer than the partition allows: it will never start",
        "submit it again with a shorter --for, or another partition",
    ),
    "PartitionNodeLimit": Why(
        "it asks for more nodes than the partition has: it will never start",
        "use another partition",
    ),
    "PartitionDown": Why("its partition is closed", _DOWN),
    "PartitionInactive": Why("its partition is closed", _DOWN),
    "PartitionConfig": Why("its partition does not allow it", "use another partition"),
    "ReqNodeNotAvail": Why("a node that it needs is not available", _DOWN),
    "NodeDown": Why("a node that it needs is down", _DOWN),
    BAD: Why("no node can ever meet its request", "ask for less"),
    "Reservation": Why("it waits for its reservation"),
    "Reserved": Why("the nodes that it needs are reserved", _DOWN),
    "Licenses": Why("it waits for a licence"),
    "Prolog": Why("its node is being prepared"),
    "Cleaning": Why("its node is being cleaned after its last start"),
    "InvalidAccount": Why("its account is not valid", "--engine-option=--account=NAME"),
    "InvalidQOS": Why("its quality of service is not valid", "--engine-option=--qos=NAME"),
    "AccountNotAllowed": Why("its account may not use the partition", "use another"),
    "QOSNotAllowed": Why("its quality of service may not use the partition", "use another"),
    "AssociationJobLimit": Why("your account has as many jobs as it may", _LIMIT),
    "AssocMaxJobsLimit": Why("your account runs as many jobs as it may", _LIMIT),
    "AssocGrpGRES": Why("your account uses as many GPUs as it may", _LIMIT),
    "AssocGrpJobsLimit": Why("your account runs as many jobs as it may", _LIMIT),
    "AssocMaxGRESPerJob": Why(
        "it asks for more GPUs than one job of your account may have: it will never start",
        "ask for fewer",
    ),
    "QOSMaxJobsPerUserLimit": Why("you run as many jobs as you may", _LIMIT),
    "QOSMaxGRESPerUser": Why("you use as many GPUs as you may", _LIMIT),
    "QOSMaxGRESPerJob": Why(
        "it asks for more GPUs than one job may have: it will never start", "ask for fewer"
    ),
    "QOSMaxSubmitJobPerUserLimit": Why("you have submitted as many jobs as you may", _LIMIT),
    "QOSMaxWallDurationPerJobLimit": Why(
        "its time limit is longer than its quality of service allows: it will never start",
        "submit it again with a shorter --for",
    ),
    "QOSGrpGRES": Why("all users together use as many GPUs as they may", _LIMIT),
    "MaxGRESPerAccount": Why("your account uses as many GPUs as it may", _LIMIT),
    "MaxJobsPerAccount": Why("your account runs as many jobs as it may", _LIMIT),
    "launch failed requeued held": Why(
        "its node could not start it, and Slurm holds it", "scontrol release ID to try again"
    ),
    "job requeued in held state": Why("it was put back and is held", "scontrol release ID"),
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


def reason_of(code: str, after: Sequence[str] = ()) -> Why:
    """Returns the meaning of a code; an unknown code in Slurm's own form. `after` are the jobs that
    it still waits for, known before Slurm has looked at it."""
    if after and code in ("", "None", "Dependency"):
        return Why(f"after job{'s' if after[1:] else ''} {', '.join(after[:5])}")
    if code in ("", "None"):
        return Why("Slurm has not looked at it yet")
    if code.startswith("Nodes required for job are DOWN"):
        return Why("the nodes that it needs are down, drained or reserved", _DOWN)
    return WAITING.get(code.split(",")[0]) or Why(f"Slurm says {code!r}")  # ReqNodeNotAvail, n1


def end_text(state: str, reason: str, code: int, number: int) -> str | None:
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
    if reason == BAD:
        return WAITING[reason].text
    return f"killed by signal {number}" if number else f"exit code {code}"


def array_text(throttle: str) -> str:
    return f"at most {throttle} of its tasks run at once (%{throttle})"


# What its commands refuse.

_BEFORE: Final = ("error: ", "Batch job submission failed: ", "slurm_load_jobs ")
_NODES: Final = "andon nodes --on NAME shows what there is"
_AWAY: Final = "Slurm's controller does not answer"
_OPTION: Final = "sbatch does not know this option"
_REFUSED: Final[Refusals] = {
    ("(connect failure)", "unable to establish configuration source"): Meaning(NotSent, _AWAY),
    (
        "unable to contact", "connection refused", "timed out", "zero bytes were transmitted",
        "communication connection failure",
    ): Meaning(Unavailable, _AWAY),
    (
        "permission denied", "not permitted", "invalid user id", "protocol authentication error",
    ): Meaning(Denied, "Slurm does not allow it", "ask your administrator"),
    ("invalid job id",): Meaning(Gone, "Slurm does not know it"),
    ("invalid partition name",): Meaning(
        Invalid, "there is no such partition",
        "sinfo lists them; set partition, or --engine-option",
    ),
    ("invalid account",): Meaning(
        Invalid, "the account or its partition is not valid", "--engine-option=--account=NAME"
    ),
    ("invalid qos",): Meaning(
        Invalid, "there is no such quality of service", "--engine-option=--qos=NAME"
    ),
    ("invalid feature specification",): Meaning(
        Invalid, "no node has such a feature", "set constraint, or leave it"
    ),
    ("invalid node name",): Meaning(Invalid, "there is no such node", _NODES),
    ("memory specification can not be satisfied",): Meaning(
        Invalid, "no node has so much memory", "ask for less: --engine-option=--mem=SIZE"
    ),
    ("requested node configuration is not available",): Meaning(
        Invalid, "no node has what it asks for: so many GPUs, this model, or the rest", _NODES
    ),
    ("invalid generic resource",): Meaning(Invalid, "Slurm knows no such GPU here", _NODES),
    ("invalid job array specification",): Meaning(
        Invalid, "the array is longer than this site allows",
        "submit it in parts; scontrol show config has MaxArraySize",
    ),
    ("requested time limit is invalid",): Meaning(
        Invalid, "its time limit is longer than the partition allows",
        "a shorter --for, or another partition",
    ),
    ("job dependency problem",): Meaning(
        Invalid, "a job that it comes after is not known", "andon jobs lists them"
    ),
    ("job violates accounting/qos policy",): Meaning(
        Invalid, "it is more than your account may have", "ask for less, or ask your administrator"
    ),
    ("unrecognized option", "invalid option"): Meaning(Invalid, _OPTION, "see man sbatch"),
}  # fmt: skip


def refusal(stderr: str) -> AndonError:
    """Returns the error for the error output of a command."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    text = lines[-1] if lines else "it gave no reason"
    if text.startswith("Try ") and len(lines) > 1:  # sbatch: unrecognized option …, then this
        text = lines[-2]
    for before in (f"{text.split(':')[0]}: ", *_BEFORE):
        text = text.removeprefix(before)
    return refused(stderr, plain(text, 300), _REFUSED, Meaning(Invalid, "Slurm refuses it", _NODES))
