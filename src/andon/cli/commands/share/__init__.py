"""Commands that find, lease and return GPUs."""
