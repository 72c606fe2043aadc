"""All that binds to the insides of asyncio, uvicorn, python-socketio and python-engineio."""
