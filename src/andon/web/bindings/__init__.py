"""Everything that relies on internals of asyncio, uvicorn, python-socketio and python-engineio."""
