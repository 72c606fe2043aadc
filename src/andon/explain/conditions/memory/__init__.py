"""Memory: full, leaking, unattributed, left behind, or returning errors."""
