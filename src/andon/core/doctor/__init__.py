"""What `andon doctor` makes of a machine: facts in, findings out."""
