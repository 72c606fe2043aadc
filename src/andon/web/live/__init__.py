"""Live events over Socket.IO: what comes in, who is connected, what goes out."""
