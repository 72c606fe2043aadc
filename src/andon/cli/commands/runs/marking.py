"""`andon runs tag`, `pin`, `note` and `rm`: what people add to runs, and how one is deleted."""

import re
from pathlib import Path

import click

from andon.cli.commands.runs.opened import RUN_FORMS, complete_run, finding
from andon.cli.options import chosen, shared
from andon.cli.terminal import Terminal, report
from andon.errors import AndonError, Conflict, Invalid
from andon.model.run.record import RunRow, RunState
from andon.runs.files import delete_record
from andon.runs.index import RunFinder
from andon.runs.rules.matching import annotated
from andon.units import sh

TAG = re.compile(r"[^\s,\ud800-\udfff]{1,60}")  # surrogates are bytes that are no text
MOST_TAGS, MOST_NOTE = 50, 2000


@click.command(epilog=RUN_FORMS)
@click.argument("run", metavar="RUN", shell_complete=complete_run)
@click.argument("tags", metavar="TAG…", nargs=-1, required=True)
@click.option("--remove", "-r", is_flag=True, help="Remove these tags.")
@shared
def tag(run: str, tags: tuple[str, ...], remove: bool) -> int:
    """Add tags to a run, or remove them with --remove. andon gc keeps tagged runs."""
    wrong = [one for one in tags if not TAG.fullmatch(one)]
    if wrong:
        hint = "a tag has no spaces and no commas, and at most 60 characters"
        raise Invalid(f"{wrong[0][:60]!r} is not a tag", hint=hint)
    with finding() as finder:
        row = _indexed(finder, run)
        marked = set(row.tags).difference(tags) if remove else set(row.tags).union(tags)
        if len(marked) > MOST_TAGS:
            raise Invalid(f"{len(marked)} tags", hint=f"a run has at most {MOST_TAGS}")
        finder.index.annotate(row.id, sorted(marked), row.note)
    Terminal.of(chosen()).remark(f"{row.id} ({row.name}): {' '.join(sorted(marked)) or 'no tags'}")
    return 0


@click.command(epilog=RUN_FORMS)
@click.argument("run", metavar="RUN", shell_complete=complete_run)
@click.option("--remove", "-r", is_flag=True, help="List it by its time again.")
@shared
def pin(run: str, remove: bool) -> int:
    """List a run before the others, and keep it: pinned ones have the tag pinned."""
    with finding() as finder:
        row = _indexed(finder, run)
        tags, _ = annotated(row, not remove, None)
        finder.index.annotate(row.id, tags, row.note)
    state = "is not pinned" if remove else "is pinned"
    Terminal.of(chosen()).remark(f"{row.id} ({row.name}) {state}")
    return 0


@click.command(epilog=RUN_FORMS)
@click.argument("run", metavar="RUN", shell_complete=complete_run)
@click.argument("text", metavar="TEXT")
@shared
def note(run: str, text: str) -> int:
    """Write a note on a run, replacing an earlier one; an empty TEXT removes it."""
    if len(text) > MOST_NOTE:
        raise Invalid(f"the note has {len(text)} characters", hint=f"at most {MOST_NOTE}")
    note = text.encode(errors="replace").decode().strip()
    with finding() as finder:
        row = _indexed(finder, run)
        finder.index.annotate(row.id, row.tags, note or None)
    Terminal.of(chosen()).remark(f"{row.id} ({row.name}): {note or 'no note'}")
    return 0


@click.command(epilog=RUN_FORMS)
@click.argument("runs", metavar="RUN…", nargs=-1, required=True, shell_complete=complete_run)
@click.option("--keep-file", is_flag=True, help="Only remove it from the list; keep the record.")
@click.option("--force", is_flag=True, help="Also if tagged, of a baseline, or elsewhere.")
@shared
def rm(runs: tuple[str, ...], keep_file: bool, force: bool) -> int:
    """Delete runs: their records, and their entries in the list.

    A run in progress is not deleted. Without --force, tagged runs and runs of a baseline are not
    deleted either, and a record outside the state folder is only removed from the list. A record
    kept in the state folder is found again by the next list.
    """
    code = 0
    with finding() as finder:
        held = {one.id: base.name for base in finder.index.baselines() for one in base.runs}
        for word in runs:
            try:
                row = finder.resolve(word, only_one=True)
                if not keep_file:
                    _refuse_protected(row, None if force else held.get(row.id), force)
            except AndonError as error:  # the others are deleted all the same
                report(error)
                code = error.exit_code
                continue
            path = Path(row.path)
            stays = keep_file or not (force or path.parent == finder.folder)
            if not stays:
                delete_record(path)
            finder.index.drop([row.id])
            where = f"; its record stays at {path}" if stays else ""
            Terminal.of(chosen()).remark(
                f"{'forgot' if stays else 'deleted'} {row.id} ({row.name}){where}"
            )
    return code


def _refuse_protected(row: RunRow, baseline: str | None, force: bool) -> None:
    named = f"run {row.id} ({row.name})"
    if row.state is RunState.RUNNING:
        raise Conflict(f"{named} is still running", hint="wait until it ends")
    if baseline is not None:
        hint = f"--force deletes it anyway; or andon runs baseline rm {sh(baseline)}"
        raise Conflict(f"{named} belongs to the baseline {baseline}", hint=hint)
    if row.tags and not force:
        raise Conflict(f"{named} is tagged {' '.join(row.tags)}", hint="--force deletes it")


def _indexed(finder: RunFinder, word: str) -> RunRow:
    """Returns the named run; a file that is not in the index is added to it."""
    row = finder.resolve(word)
    if not any(one.id == row.id for one in finder.index.beginning(row.id, 1)):
        finder.index.put([row])
    return row
