"""A stand-in for libnvidia-ml.so.1: built when needed, configured and broken from Python."""

from .build import BuildError, build
from .control import StandIn
from .faults import (
    HANDLE_FUNCTIONS,
    Fault,
    crash,
    delay,
    error,
    hang_file,
    hung,
    init_fails,
    lost,
    not_supported,
)
from .node import StandInDevice, StandInMig, StandInProcess

__all__ = [
    "HANDLE_FUNCTIONS",
    "BuildError",
    "Fault",
    "StandIn",
    "StandInDevice",
    "StandInMig",
    "StandInProcess",
    "build",
    "crash",
    "delay",
    "error",
    "hang_file",
    "hung",
    "init_fails",
    "lost",
    "not_supported",
]
