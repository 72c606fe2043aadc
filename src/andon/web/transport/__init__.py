"""What every request passes: seats, the gate, keys, the audit log, the server log."""
