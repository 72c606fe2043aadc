"""Commands that explain the state of devices, and what needs attention."""
