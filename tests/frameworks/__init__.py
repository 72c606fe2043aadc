"""The callbacks in real training loops, and `%andon` in a real kernel: `make frameworks`."""
