"""Socket.IO packets for payloads that are encoded as JSON already."""

import json
from typing import Any

from socketio import packet


class Prepared(str):
    """One JSON value as text, sent unchanged."""

    __slots__ = ()


class Packet(packet.Packet):  # type: ignore[misc]
    """The library's packet, without its search for bytes and its encoding where both are done."""

    uses_binary_events = False  # no payload holds bytes, and the search would visit every value

    def encode(self) -> Any:
        data = self.data
        if self.packet_type != packet.EVENT or not isinstance(data[-1], Prepared):
            return super().encode()
        return "".join((str(packet.EVENT), "[", json.dumps(data[0]), ",", data[-1], "]"))
