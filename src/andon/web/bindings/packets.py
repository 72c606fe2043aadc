"""Socket.IO packets for payloads that are JSON already."""

from typing import Any

from socketio import packet


class Prepared(str):
    """One JSON value as text, which goes out as it is."""

    __slots__ = ()


class Packet(packet.Packet):  # type: ignore[misc]
    """The library's packet, spared the search for bytes and the encoding where both are done."""

    uses_binary_events = (
        False  # nothing that is sent holds bytes, and each value would be looked at
    )

    def encode(self) -> Any:
        data = self.data
        if self.packet_type != packet.EVENT or not isinstance(data[-1], Prepared):
            return super().encode()
        return f'{packet.EVENT}["{data[0]}",{data[-1]}]'
