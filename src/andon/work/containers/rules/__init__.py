"""Which options a container may have, and the arguments that create it."""
