"""What each view of `andon top` shows, as lines of styled text; no terminal is needed."""
