"""How a part of a program ended, from the error that left it."""

from andon.model.run.record import RunState
from andon.runs.rules.oom import complaint
from andon.runs.rules.plain import plain_text

LONGEST_MESSAGE = 500


def ending_of(error: BaseException | None, said: str) -> tuple[RunState, int | None, str | None]:
    """Returns state, exit code and message; `said` is the error as Python prints it."""
    if error is None:
        return RunState.SUCCEEDED, None, None
    if isinstance(error, SystemExit):
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
        return (RunState.FAILED if code else RunState.SUCCEEDED), code, None
    if isinstance(error, KeyboardInterrupt):
        return RunState.STOPPED, None, "interrupted"
    if isinstance(error, GeneratorExit):
        return RunState.STOPPED, None, "left early"
    if complaint(said) is not None:
        return RunState.DEVICE_OUT_OF_MEMORY, None, plain_text(said.strip(), LONGEST_MESSAGE)
    if isinstance(error, MemoryError):
        return RunState.HOST_OUT_OF_MEMORY, None, "out of host memory"
    return RunState.FAILED, None, plain_text(said.strip(), LONGEST_MESSAGE)
