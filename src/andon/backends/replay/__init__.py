"""Replays a recorded file: devices from a bug report can be inspected again."""

from andon.backends.replay.backend import Replay
from andon.backends.replay.recording import RecordedHost, Recording

__all__ = ["RecordedHost", "Recording", "Replay"]
