"""Plays a recorded file: a bug report becomes a device that can be looked at again."""

from andon.backends.replay.backend import Replay
from andon.backends.replay.recording import RecordedHost, Recording

__all__ = ["RecordedHost", "Recording", "Replay"]
