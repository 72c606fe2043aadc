"""What `andon map` shows: its progress, the output of its items, its summary."""
