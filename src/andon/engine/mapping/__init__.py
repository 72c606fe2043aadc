"""Works through many items with one worker per device."""
