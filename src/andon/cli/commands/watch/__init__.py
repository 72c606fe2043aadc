"""Commands that show what the GPUs are doing."""
