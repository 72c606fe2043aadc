"""Commands that find the largest size that fits."""
