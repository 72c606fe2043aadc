"""The terminal driver of top: writes to standard output, and waits for input without a timer."""

import os
import selectors
import sys
from codecs import getincrementaldecoder
from contextlib import suppress
from typing import Any

from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver

SETTLE_SECONDS = 0.1  # after a key: this time distinguishes the Escape key from a sequence
SETTLE_LOOKS = 3
READ_BYTES = 4096


class TopDriver(LinuxDriver):
    """Writes to standard output, because standard error may be a file. Its input thread sleeps
    until there is input: Textual's own polls ten times a second."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        if sys.__stdout__ is not None:
            self._file = sys.__stdout__
        self._woken, self._wake = os.pipe()

    def disable_input(self) -> None:
        os.write(self._wake, b"x")
        super().disable_input()

    def close(self) -> None:
        super().close()
        for descriptor in (self._woken, self._wake):
            with suppress(OSError):
                os.close(descriptor)

    def run_input_thread(self) -> None:
        parser = XTermParser(self._debug)
        decode = getincrementaldecoder("utf-8")("replace").decode
        looks = SETTLE_LOOKS
        with selectors.DefaultSelector() as selector:
            selector.register(self.fileno, selectors.EVENT_READ)
            selector.register(self._woken, selectors.EVENT_READ)
            while not self.exit_event.is_set():
                found = selector.select(SETTLE_SECONDS if looks else None)
                looks = SETTLE_LOOKS if found else looks - 1
                for key, _ in found:
                    data = os.read(key.fd, READ_BYTES)
                    if not data:  # the input has ended: signals still work
                        selector.unregister(key.fd)
                    elif key.fd == self.fileno:
                        for event in parser.feed(decode(data)):
                            self.process_message(event)
                for event in parser.tick():
                    self.process_message(event)
