"""Records of runs: read, found and followed."""
