"""The conditions that alerts report: rules, thresholds, how each is judged, and its text."""
