"""What an action asks the app to do, besides showing the new state."""

from enum import StrEnum

from msgspec import Struct

from andon.tui.state import TopState


class EffectKind(StrEnum):
    """What the app has to do besides showing the new state."""

    QUIT = "quit"
    COPY = "copy"
    END = "end"  # ask whether to end the process under the cursor
    INTERVAL = "interval"
    PAST = "past"  # another span of the past is needed
    ENVIRONMENT = "environment"
    PAUSE = "pause"
    STEP = "step"
    STEP_BACK = "step_back"
    REDRAW = "redraw"
    SUSPEND = "suspend"


class Effect(Struct, frozen=True):
    """One thing to do, and with what."""

    kind: EffectKind
    text: str = ""


Outcome = tuple[TopState, tuple[Effect, ...]]
"""The state after an action, and what is to be done."""
