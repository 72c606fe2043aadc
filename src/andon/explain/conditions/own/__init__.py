"""The parts of andon itself."""
