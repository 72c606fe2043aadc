"""Replays a recorded file: devices from a bug report can be inspected again."""

from andon.drivers.replay.backend import Replay
from andon.drivers.replay.recording import RecordedHost, Recording

__all__ = ["RecordedHost", "Recording", "Replay"]
