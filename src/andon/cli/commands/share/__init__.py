"""Commands that find, reserve and return GPUs."""
