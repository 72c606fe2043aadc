"""Everything that relies on internals of asyncio, uvicorn, python-socketio and python-engineio.

Those are pinned below their next major version, and there is a test for each reason. A connection
counts until its descriptor is closed (`accepting`); `quiet_server` removes uvicorn's ten wake-ups a
second.
"""
