"""What a run used, and how its command ended."""
