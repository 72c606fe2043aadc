"""What Slurm's commands say when they refuse, in a sentence each, and then in their own words."""

from typing import Final

from andon.clusters.slurm.rules.answers import parse_fields, parse_limit
from andon.errors import AndonError, Denied, Gone, Invalid, Unavailable
from andon.units import human_seconds

_AWAY: Final = (
    "unable to contact slurm controller", "unable to establish configuration source",
    "connection refused", "socket timed out", "zero bytes were transmitted", "connection timed out",
    "communication connection failure", "unable to contact",
)  # fmt: skip
_DENIED: Final = (
    "access/permission denied", "user's group not permitted", "invalid user id",
    "protocol authentication error", "not permitted",
)  # fmt: skip
_BEFORE: Final = ("error: ", "Batch job submission failed: ", "slurm_load_jobs ")
_NODES: Final = "andon nodes --on NAME shows what there is"
_REFUSED: Final = {  # what Slurm says, in small letters: our sentence, and what would help
    "invalid partition name": (
        "there is no such partition", "sinfo lists them; set partition, or --engine-option"
    ),
    "invalid account": (
        "the account or its partition is not valid", "--engine-option=--account=NAME"
    ),
    "invalid qos": ("there is no such quality of service", "--engine-option=--qos=NAME"),
    "invalid feature specification": ("no node has such a feature", "set constraint, or leave it"),
    "invalid node name": ("there is no such node", _NODES),
    "memory specification can not be satisfied": (
        "no node has so much memory", "ask for less: --engine-option=--mem=SIZE"
    ),
    "requested node configuration is not available": (
        "no node has what it asks for: so many GPUs, this model, or the rest", _NODES
    ),
    "invalid generic resource": ("Slurm knows no such GPU here", _NODES),
    "invalid job array specification": (
        "the array is longer than this site allows", "submit it in parts; scontrol show config "
        "has MaxArraySize"
    ),
    "requested time limit is invalid": (
        "its time limit is longer than the partition allows", "a shorter --for, or another "
        "partition"
    ),
    "job dependency problem": ("a job that it comes after is not known", "andon jobs lists them"),
    "job violates accounting/qos policy": (
        "it is more than your account may have", "ask for less, or ask your administrator"
    ),
    "unrecognized option": ("sbatch does not know this option", "see man sbatch"),
    "invalid option": ("sbatch does not know this option", "see man sbatch"),
    "batch job submission failed": ("Slurm refuses it", _NODES),
}  # fmt: skip


def refusal(said: str) -> AndonError:
    """Returns the error for what a command said."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    words = lines[-1] if lines else "it gave no reason"
    if words.startswith("Try ") and len(lines) > 1:  # sbatch: unrecognized option …, then this
        words = lines[-2]
    for before in (f"{words.split(':')[0]}: ", *_BEFORE):
        words = words.removeprefix(before)
    words = "".join(sign if sign.isprintable() else "?" for sign in words)[:300]
    small = said.lower()
    if any(one in small for one in _AWAY):
        return Unavailable(f"Slurm's controller does not answer: {words}")
    if any(one in small for one in _DENIED):
        return Denied(f"Slurm does not allow it: {words}", hint="ask your administrator")
    if "invalid job id" in small:
        return Gone(f"Slurm does not know it: {words}")
    for key, (sentence, hint) in _REFUSED.items():
        if key in small:
            return Invalid(f"{sentence}: {words}", hint=hint)
    return Invalid(f"Slurm refuses it: {words}", hint=_NODES)


def over_limit(seconds: float | None, partitions: str, chosen: str) -> AndonError | None:
    """Returns the error of a job whose time limit no chosen partition allows: Slurm would take it
    and let it wait forever. `partitions` is what `scontrol -o show partition` prints; `chosen` has
    their names with commas, empty for the default."""
    rows = [parse_fields(line) for line in partitions.splitlines()]
    names = chosen.split(",")
    meant = [
        row for row in rows
        if (row.get("PartitionName") in names if chosen else row.get("Default") == "YES")
    ]  # fmt: skip
    limits = [parse_limit(row.get("MaxTime", "")) for row in meant]
    if seconds is None or not limits or None in limits:
        return None
    longest = max(limit for limit in limits if limit is not None)
    if seconds <= longest:
        return None
    name = ", ".join(row["PartitionName"] for row in meant)
    return Invalid(
        f"its time limit is longer than the partition {name} allows, which is "
        f"{human_seconds(longest)}: it would wait forever (PartitionTimeLimit)",
        hint="a shorter --for, or another partition",
    )
