"""The kinds of cluster that andon supports itself: each implements `ports.Cluster` in a folder."""
