"""Checks andon itself: its settings, its folders, its packages, the terminal."""

from collections.abc import Iterator

from andon.doctor.rules.facts import Folder, MachineFacts
from andon.doctor.rules.findings import Check, CheckResult, Value, failure, ok, unknown, warning
from andon.units import GIB, MIB, human_bytes, sh

ROOMY_BYTES = 1 * GIB  # a month of history for eight devices needs a quarter of it
TIGHT_BYTES = 50 * MIB


def judge(facts: MachineFacts) -> Iterator[CheckResult]:
    yield from _settings(facts)
    yield _state(facts.own.state, bool(facts.slurm.job or facts.slurm.commands))
    yield from _packages(facts)
    yield _terminal(facts)


def _settings(facts: MachineFacts) -> Iterator[CheckResult]:
    own = facts.own
    for mistake in own.mistakes:
        yield failure(Check.SETTINGS_WRONG, mistake, "andon config check", path=own.config)
    if own.mistakes:
        return
    changed = f"{own.changed} changed" if own.changed else "all at their defaults"
    message = f"settings: {own.config or 'no file'}, {changed}"
    yield ok(Check.SETTINGS, message, path=own.config, changed=own.changed)


def _state(state: Folder, on_slurm: bool) -> CheckResult:
    place: dict[str, Value] = {
        "path": state.path,
        "free_bytes": state.free_bytes,
        "file_system": state.kind,
    }
    if not state.path:
        return unknown(Check.STATE, "the state folder is unknown: there is no home folder", **place)
    if state.remote and on_slurm:
        message = (
            f"{state.path} is on a network file system ({state.kind}), as homes are on Slurm: "
            "every node has the outputs and records of jobs"
        )
        return ok(Check.STATE, message, **place)
    if state.remote:
        message = (
            f"{state.path} is on a network file system ({state.kind}): it can hang, and the "
            "history is written more slowly, with a rollback journal"
        )
        return warning(
            Check.STATE_REMOTE, message, 'export XDG_STATE_HOME="/var/tmp/$USER"', **place
        )
    if not state.writable:
        message = f"{state.path} is not writable: nothing can be recorded"
        fix = f'sudo install -d -o "$USER" {sh(state.path)}'
        return failure(Check.STATE_NOT_WRITABLE, message, fix, **place)
    return _room(state)


def _room(state: Folder) -> CheckResult:
    place: dict[str, Value] = {
        "path": state.path,
        "free_bytes": state.free_bytes,
        "file_system": state.kind,
    }
    if state.free_bytes is None:
        return ok(Check.STATE, f"{state.path} is writable", **place)
    free = human_bytes(state.free_bytes)
    if state.free_bytes < ROOMY_BYTES:
        graded = failure if state.free_bytes < TIGHT_BYTES else warning
        message = f"{state.path} has {free} free"
        return graded(Check.STATE_FULL, message, f"df -h {sh(state.path)}", **place)
    made = "" if state.exists else ", created when first needed"
    return ok(Check.STATE, f"{state.path}: {free} free{made}", **place)


def _packages(facts: MachineFacts) -> Iterator[CheckResult]:
    own = facts.own
    missing = [name for name, version in own.packages.items() if version is None]
    listed = ", ".join(f"{name} {version}" for name, version in own.packages.items() if version)
    message = f"andon {own.version}, Python {own.python}, {listed}".rstrip(", ")
    yield ok(Check.VERSIONS, message, andon=own.version, python=own.python, **dict(own.packages))
    if missing:
        names = " ".join(missing)
        yield failure(Check.PACKAGE_MISSING, f"not installed: {names}", f"pip install {names}")
    if own.old_pynvml is not None:
        yield warning(
            Check.PYNVML_SHADOWED,
            f"the old package pynvml {own.old_pynvml} hides NVIDIA's nvidia-ml-py",
            "pip uninstall -y pynvml && pip install --force-reinstall nvidia-ml-py",
            version=own.old_pynvml,
        )


def _terminal(facts: MachineFacts) -> CheckResult:
    own = facts.own
    place: dict[str, Value] = {"encoding": own.encoding, "columns": own.columns, "color": own.color}
    if own.encoding.lower().replace("-", "").replace("_", "") != "utf8":
        message = f"the terminal is set to {own.encoding}: bars and lamps are drawn in ASCII"
        return warning(Check.TERMINAL_ASCII, message, "export LANG=C.UTF-8", **place)
    colors = "in colour" if own.color else "without colour"
    return ok(Check.TERMINAL, f"output: UTF-8, {own.columns} columns, {colors}", **place)
