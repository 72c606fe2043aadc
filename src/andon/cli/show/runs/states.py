"""How the state of a run is written; apart from numbers, which lists of jobs show too."""

from andon.cli.show.text import Text, say
from andon.model.run.record import RunState

STATE_STYLES = {
    RunState.RUNNING: "bold green",
    RunState.SUCCEEDED: "",
    RunState.STOPPED: "yellow",
    RunState.LOST: "yellow",
    RunState.NOT_STARTED: "yellow",
}
STATE_WORDS = {
    RunState.DEVICE_OUT_OF_MEMORY: "GPU out of memory",
    RunState.HOST_OUT_OF_MEMORY: "out of memory",
    RunState.SIGNAL: "killed",
    RunState.TIMEOUT: "timed out",
    RunState.NOT_STARTED: "not started",
}


def state_text(state: RunState) -> Text:
    return say(STATE_WORDS.get(state) or str(state), STATE_STYLES.get(state, "red"))
