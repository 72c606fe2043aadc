"""The process `call FOLDER`: calls the function that a job carries, and writes its answer there.

The folder has one file for each: the call is written before the job is submitted, the answer whole
when the function has ended. Both are only for the person whose job it is.
"""

import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from andon.host.files import make_private, replace_file
from andon.host.state.user_folder import state_folder
from andon.work.functions.caller import CallOutcome, outcome_of
from andon.work.functions.carrying import carried, carry_function, carry_value
from andon.work.functions.child import called, failed

CALLS = "calls"
CALL, ANSWER = "call.pickle", "answer.pickle"


def new_call_folder() -> Path:
    """Returns a folder for a call, which every machine with the same home sees."""
    return state_folder() / CALLS / os.urandom(6).hex()


def sweep_calls(before: float) -> None:
    """Deletes calls that were not used since this time."""
    with suppress(OSError):
        for folder in (state_folder() / CALLS).iterdir():
            if folder.stat().st_mtime < before:
                delete_call(folder)


def write_call(
    folder: Path,
    function: Callable[..., Any],
    arguments: Sequence[Any],
    keywords: Mapping[str, Any],
) -> None:
    """Makes the folder of a call; raises Invalid if the function or a value cannot be carried."""
    call = {
        "function": carry_function(function),
        "argument": carry_value((tuple(arguments), dict(keywords))),
        "path": [path for path in sys.path if path],
    }
    make_private(folder)
    replace_file(folder / CALL, carry_value(call))


def read_answer(folder: Path) -> CallOutcome | None:
    """Returns how the call ended; None if it has not."""
    try:
        answer = (folder / ANSWER).read_bytes()
    except FileNotFoundError:
        return None
    return outcome_of(carried(answer), 0.0)


def delete_call(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


def main(arguments: list[str]) -> int:
    folder = Path(arguments[0])
    call = carried((folder / CALL).read_bytes())
    sys.path[:] = [*call["path"], *(one for one in sys.path if one not in call["path"])]
    try:
        function = carried(call["function"])
    except BaseException as exc:  # noqa: BLE001 - importing a module may raise anything
        answer = carry_value(failed(exc))
    else:
        answer = called(lambda given: function(*given[0], **given[1]), call["argument"])
    sys.stdout.flush()
    replace_file(folder / ANSWER, answer)
    outcome = carried(answer)
    if "error" not in outcome:
        return 0
    os.write(2, str(outcome.get("traceback") or outcome["error"]).encode(errors="replace"))
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
