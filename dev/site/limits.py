"""The page of limits, made from the constants that enforce them."""

from importlib import import_module
from typing import NamedTuple

from andon.units import human_bytes, human_seconds


class Limit(NamedTuple):
    """A constant of the code, and what a person meets it at."""

    place: str
    words: str
    unit: str = ""


LIMITS = {
    "Leases and reservations": (
        Limit("model.lease_wire:MOST_OF_ONE_USER", "leases of one user, and tickets in the queue"),
        Limit("model.lease_wire:MOST_NOTE", "characters of a note with a release"),
        Limit("leases.network:MOST_LENT", "leases over the network at once"),
        Limit("model.job.device_request:MOST_GPUS", "GPUs of a request"),
        Limit("web.answers.requests:LONGEST_RESERVED_SECONDS", "a reservation over REST", "s"),
    ),
    "Jobs, sweeps and maps": (
        Limit("model.job.spec:MOST_ARRAY", "elements of an array"),
        Limit("jobs.rules.parameters:MOST_WITHOUT_YES", "jobs of a sweep without `--yes`"),
        Limit("jobs.rules.parameters:MOST_COMBINATIONS", "combinations of a sweep"),
        Limit("jobs.rules.file:MOST_FILE_JOBS", "jobs of a job file"),
        Limit("model.job.spec:MOST_RETRIES", "retries of a job"),
        Limit("jobs.rules.metrics:MOST_METRICS", "figures (`--metric`) of a job"),
        Limit("jobs.rules.metrics:LONGEST_LINE", "characters of a line in which one is looked for"),
        Limit("clusters.ssh.copying:MOST_FILES", "files that `--sync` copies"),
        Limit("clusters.ssh.copying:MOST_BYTES", "their size", "B"),
    ),
    "A server and its clients": (
        Limit("web.live.visitors:MOST", "clients of live events"),
        Limit("web.live.visitors:MOST_ANONYMOUS", "of these without a key, from one address"),
        Limit("web.transport.keys:MOST_SESSIONS", "sessions"),
        Limit("web.transport.keys:MOST_EACH", "sessions of one user"),
        Limit("web.transport.auth:MAX_BODY_BYTES", "the body of a request", "B"),
        Limit("web.transport.audit:MOST_BYTES", "the audit log; one earlier file is kept", "B"),
        Limit("web.history_reader:MOST_WAITING", "questions about the history that wait"),
        Limit("web.live.run_watch:MOST_RUNS", "runs that a client follows, and overlays"),
        Limit("access.roles:LONGEST_USER_SILENCE_SECONDS", "a silence of a user", "s"),
        Limit("access.local_rest:MOST_FRAME_BYTES", "a question at the local socket", "B"),
        Limit("access.local_rest:MOST_PATHS", "paths in it"),
    ),
    "History and runs": (
        Limit("history.rules.notes:MOST_NOTES", "notes of a node"),
        Limit("history.rules.notes:LONGEST_NOTE", "characters of a note"),
        Limit("history.rules.backlog:MOST_TICKS", "samples that wait while the disk fails"),
        Limit("node.watched.run_list:MOST_LISTED", "runs of one answer"),
        Limit("node.remote.runs:MOST_BYTES", "a record that is read from a server", "B"),
    ),
    "Hosts over SSH, hubs and checks": (
        Limit("node.ssh.names:MOST_HOSTS", "hosts of one command"),
        Limit("web.fleet.nodes:MOST_RUNS", "runs of a node that its hub lists"),
        Limit("web.fleet.courses:MOST_NODES", "nodes of one chart"),
        Limit("checks.store:MOST_RECENT", "results of checks kept for a card"),
        Limit("app.check_prolog:LONGEST_SECONDS", "a check in a prolog of Slurm", "s"),
    ),
    "Files of models (`andon estimate`)": (
        Limit("estimate.rules.safetensors:MOST_HEADER_BYTES", "a safetensors header", "B"),
        Limit("estimate.rules.safetensors:MOST_IN_A_FILE", "tensors of a file"),
        Limit("estimate.files:MOST_HEADERS_BYTES", "headers of all files of a model", "B"),
        Limit("web.transport.auth:MAX_CONFIG_BYTES", "a config.json over REST", "B"),
    ),
}  # fmt: skip


def limits_page() -> str:
    """The whole page; a constant that is gone raises AttributeError."""
    parts = ["# Limits\n\nWhat is more is refused, left out or cut, and said. Limits of [root's "
             "policy](../policy.md) and of [settings](../settings.md) come on top.\n"]  # fmt: skip
    for title, rows in LIMITS.items():
        parts.append(f"\n## {title}\n\n| at most | of what |\n|---|---|\n")
        parts += [f"| {_shown(row)} | {row.words} |\n" for row in rows]
    return "".join(parts)


def _shown(row: Limit) -> str:
    module, _, name = row.place.partition(":")
    value = getattr(import_module(f"andon.{module}"), name)
    if row.unit == "B":
        return human_bytes(value)
    return human_seconds(value) if row.unit == "s" else f"{value:,}"
