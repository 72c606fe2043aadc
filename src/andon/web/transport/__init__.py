"""What every request passes through: seats, turns, the gate, keys, and the logs."""
