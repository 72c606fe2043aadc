"""Commands that say why, and what needs attention."""
