"""Parses what Slurm's commands print, in fixed formats that every version has."""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from andon.clusters.slurm.rules.commands import MARK
from andon.clusters.slurm.rules.reasons import BAD, SHORT_OF, end_text, reason_of
from andon.errors import Invalid
from andon.model.job.cluster import ClusterJob, ClusterNode, GpuHolder
from andon.model.job.facts import JobState
from andon.units import human_seconds, whole_number

SEPARATOR: Final = "\x1f"
JOB_FIELDS: Final = (
    "JobID", "ArrayJobID", "ArrayTaskID", "State", "UserName", "SubmitTime", "StartTime",
    "EndTime", "tres-per-job", "tres-per-node", "NodeList", "Partition", "Reason", "Dependency",
    "TimeLimit", "exit_code", "Comment", "Name",
)  # fmt: skip
PAST_FIELDS: Final = (
    "JobID", "State", "User", "Submit", "Start", "End", "AllocTRES", "NodeList", "Partition",
    "ExitCode", "Comment", "JobName",
)  # fmt: skip
_PAST_NAMES: Final = (
    "JobID", "State", "UserName", "SubmitTime", "StartTime", "EndTime", "tres-per-job", "NodeList",
    "Partition", "exit_code", "Comment", "Name",
)  # fmt: skip
"""The same as `squeue` names them."""
NODE_FIELDS: Final = ("NodeList", "StateLong", "Gres", "GresUsed", "Reason")
FAR_SECONDS: Final = 300 * 86_400.0  # Slurm reports an unknown end as one in a year
_STATES: Final = {
    "PENDING": JobState.WAITING, "CONFIGURING": JobState.WAITING, "REQUEUED": JobState.WAITING,
    "REQUEUE_FED": JobState.WAITING, "REQUEUE_HOLD": JobState.HELD, "SPECIAL_EXIT": JobState.HELD,
    "RESV_DEL_HOLD": JobState.HELD,
    "RUNNING": JobState.RUNNING, "COMPLETING": JobState.RUNNING, "SUSPENDED": JobState.RUNNING,
    "STOPPED": JobState.RUNNING, "RESIZING": JobState.RUNNING, "SIGNALING": JobState.RUNNING,
    "STAGE_OUT": JobState.RUNNING,
    "COMPLETED": JobState.SUCCEEDED, "CANCELLED": JobState.CANCELLED, "TIMEOUT": JobState.TIMED_OUT,
    "DEADLINE": JobState.TIMED_OUT, "FAILED": JobState.FAILED, "OUT_OF_MEMORY": JobState.FAILED,
    "BOOT_FAIL": JobState.FAILED, "LAUNCH_FAILED": JobState.FAILED, "NODE_FAIL": JobState.LOST,
    "PREEMPTED": JobState.CANCELLED, "REVOKED": JobState.CANCELLED,
}  # fmt: skip
_HOLDS: Final = ("JobHeldUser", "JobHeldAdmin")
_JOB_NUMBERS: Final = re.compile(r":(\d+(?:_\d+)?)")  # afterok:7(unfulfilled),afterany:8_2(…)
_GPUS: Final = re.compile(r"\bgpu(?::[\w.-]+)?[:=](\d+)")
_GRES: Final = re.compile(r"\bgpu:(?:([A-Za-z][\w.-]*):)?(\d+)")
_DEVICES: Final = re.compile(r" Nodes=(\S+) .*?GRES=\S*?gpu\S*?\(IDX:([\d,-]+)\)")
_USABLE: Final = frozenset({"idle", "mixed", "allocated", "completing", "reserved"})


class SlurmJob(Struct, frozen=True):
    """A job with two things that the list does not show: its number, and Slurm's own reason."""

    number: str
    job: ClusterJob
    reason: str
    must_end: float | None = None  # of one that runs: its time limit


def with_separators(fields: Sequence[str]) -> str:
    """Returns the fields as `squeue` and `sinfo` take them."""
    return ",".join(f"{name}:{SEPARATOR}" for name in fields)


def parse_jobs(text: str) -> list[SlurmJob]:
    """Returns the jobs of `squeue`; other lines are left out."""
    return [job for row in _rows(text, JOB_FIELDS) if (job := _job(row)) is not None]


def parse_past(text: str) -> list[ClusterJob]:
    """Returns the jobs of `sacct` that have ended."""
    found = []
    for row in _rows(text, _PAST_NAMES):
        array, _, index = row["JobID"].partition("_")
        more = {"ArrayJobID": array, "ArrayTaskID": index, "tres-per-node": "", "Reason": "",
                "Dependency": "", "TimeLimit": ""}  # fmt: skip
        one = _job({**row, **more})
        if one is not None and one.job.state.is_settled:
            found.append(one.job)
    return found


def _job(row: Mapping[str, str]) -> SlurmJob | None:
    state, submitted = _STATES.get(row["State"].split(" ")[0]), _time(row["SubmitTime"])
    label = _label(row["Comment"])
    if state is None or submitted is None:
        return None
    if label and row["Reason"] == BAD and state.is_settled and not _given(row["NodeList"]):
        return None  # `sbatch` refused it, and Slurm lists it all the same
    if state is JobState.WAITING and row["Reason"] in _HOLDS:
        state = JobState.HELD
    elif state is JobState.WAITING and row["Reason"] == "BeginTime":
        state = JobState.LATER
    array, index = row["ArrayJobID"], row["ArrayTaskID"]
    element = whole_number(index, 9) is not None
    start, end = _time(row["StartTime"]), _time(row["EndTime"])
    ran = bool(_given(row["NodeList"])) and not _is_pending(state)
    code, number = _status(row["exit_code"])
    gpus = f"{row['tres-per-job']} {row['tres-per-node']}"
    why = reason_of(row["Reason"], _JOB_NUMBERS.findall(row["Dependency"]))
    reason = why.text if _is_pending(state) else None
    if state.is_settled:
        reason = end_text(row["State"], row["Reason"], code, number)
    job = ClusterJob(
        id=f"{array}_{index}" if element else row["JobID"],
        name=row["Name"],
        state=state,
        user=row["UserName"],
        submitted_at=submitted,
        gpus=_count(_GPUS.search(gpus)) if "gpu" in gpus else 0,
        where=_given(row["NodeList"]) or _given(row["Partition"]),
        reason=reason,
        label=label,
        array=array if element else None,
        array_index=int(index) if element else None,
        started=start if ran else None,
        ended=end if state.is_settled else None,
        exit_code=_code(state, code, number),
        signal=number or None if state.is_settled else None,
        expected_start=_expected(start, submitted) if _is_pending(state) else None,
        for_seconds=parse_limit(row["TimeLimit"]),
        has_log=label is not None,
        short_of_gpus=state is JobState.WAITING and row["Reason"] in SHORT_OF,
        advice=why.advice if _is_pending(state) else "",
    )
    limit = _expected(end, submitted) if end is not None and row["State"] == "RUNNING" else None
    return SlurmJob(row["JobID"], job, row["Reason"], limit)


def holders_on(node: str, jobs: Iterable[SlurmJob]) -> tuple[GpuHolder, ...]:
    """Returns the running jobs that have GPUs of a node."""
    return tuple(
        GpuHolder(one.job.id, one.job.gpus, one.job.started, one.must_end, one.number)
        for one in jobs
        if one.job.gpus and one.job.where == node and one.job.state is JobState.RUNNING
    )


def parse_devices(text: str) -> dict[str, str]:
    """Returns where jobs run, by number: `n1 GPU 0-1`, from `scontrol -o -d show job`."""
    found = {}
    for line in text.splitlines():
        number = re.match(r"JobId=(\d+) ", line)
        places = [f"{node} GPU {ids.replace(',', ', ')}" for node, ids in _DEVICES.findall(line)]
        if number is not None and places:
            found[number[1]] = "; ".join(places)
    return found


def on_devices(jobs: Iterable[SlurmJob], places: Mapping[str, str]) -> list[SlurmJob]:
    """Adds the devices of running jobs."""
    return [
        replace(one, job=replace(one.job, where=places[one.number]))
        if one.number in places
        else one
        for one in jobs
    ]


def parse_nodes(text: str) -> list[ClusterNode]:
    """Returns the machines with GPUs, each once however many partitions it is in."""
    found: dict[str, ClusterNode] = {}
    for row in _rows(text, NODE_FIELDS):
        have, used = _GRES.findall(row["Gres"]), _GRES.findall(row["GresUsed"])
        if not have:
            continue
        gpus, taken = (sum(int(count) for _, count in each) for each in (have, used))
        state = row["StateLong"].rstrip("*~#!%$@^-+")
        silent = "*" in row["StateLong"]
        usable = state in _USABLE and not silent
        reason = _given(row["Reason"])
        note = reason or ("it does not respond to Slurm" if silent else None)
        models = sorted({model for model, _ in have if model})
        found[row["NodeList"]] = ClusterNode(
            row["NodeList"], state, usable, gpus, min(taken, gpus),
            max(0, gpus - taken) if usable else 0, ", ".join(models) or None, note=note,
        )  # fmt: skip
    return sorted(found.values(), key=lambda node: node.name)


def parse_fields(line: str) -> dict[str, str]:
    """Returns the NAME=VALUE pairs of `scontrol -o`; only the last value can be free text."""
    return dict(word.split("=", 1) for word in line.split(" ") if "=" in word)


def _rows(text: str, fields: Sequence[str]) -> Iterable[dict[str, str]]:
    """Yields lines as tables; the last field is free text and may contain separators."""
    for line in text.split("\n"):
        parts = line.removesuffix(SEPARATOR).split(SEPARATOR, len(fields) - 1)
        if len(parts) == len(fields):
            yield dict(zip(fields, parts, strict=True))


def _is_pending(state: JobState) -> bool:
    return not state.is_settled and state is not JobState.RUNNING


@lru_cache(64)  # an array has one
def _label(comment: str) -> str | None:
    label = comment.removeprefix(MARK)
    return label if comment.startswith(MARK) and re.fullmatch(r"[\w.-]{1,64}", label) else None


def _given(text: str) -> str | None:
    """Returns a value; None for any of Slurm's texts for a missing value."""
    return None if text in ("", "(null)", "none", "None", "N/A", "NONE", "Unknown") else text


def _time(text: str) -> float | None:
    return float(whole_number(text, 12) or 0) or None


def _expected(start: float | None, submitted: float) -> float | None:
    return start if start is not None and start - submitted < FAR_SECONDS else None


def _count(found: re.Match[str] | None) -> int | None:
    return None if found is None else int(found[1])


def _status(text: str) -> tuple[int, int]:
    """Returns exit code and signal, from a wait status or `3:0`."""
    code, colon, number = text.partition(":")
    if colon:
        return whole_number(code, 9) or 0, whole_number(number, 9) or 0
    status = whole_number(text, 9) or 0
    return status >> 8 & 0xFF, status & 0x7F


def _code(state: JobState, code: int, number: int) -> int | None:
    """Returns the exit code of a job that ended by itself."""
    ended = state in (JobState.SUCCEEDED, JobState.FAILED)
    return code if ended and not number else None


def parse_limit(text: str) -> float | None:
    """Returns the seconds of `2-01:00:00`, `1:30:00` or `1:00`."""
    days, _, clock = text.rpartition("-")
    parts = clock.split(":")
    if None in [whole_number(part, 9) for part in (*parts, days or "0")]:
        return None
    seconds = 0
    for part in parts:
        seconds = 60 * seconds + int(part)
    return float(seconds + 86_400 * int(days or 0))


def refuse_longer(seconds: float, partitions: str, chosen: str) -> None:
    """Refuses a time limit that no chosen partition allows: Slurm would take the job and let it
    wait forever. `partitions` is what `scontrol -o show partition` prints; `chosen` has their names
    with commas, empty for the default."""
    rows = [parse_fields(line) for line in partitions.splitlines()]
    names = chosen.split(",")
    meant = [
        row for row in rows
        if (row.get("PartitionName") in names if chosen else row.get("Default") == "YES")
    ]  # fmt: skip
    limits = [parse_limit(row.get("MaxTime", "")) for row in meant]
    longest = max((limit for limit in limits if limit is not None), default=None)
    if longest is None or None in limits or seconds <= longest:
        return
    name = ", ".join(row["PartitionName"] for row in meant)
    raise Invalid(
        f"its time limit is longer than the partition {name} allows, which is "
        f"{human_seconds(longest)}: it would wait forever (PartitionTimeLimit)",
        hint="a shorter --for, or another partition",
    )
