"""Where commands are executed: as local processes, or in containers of Docker and Podman."""
