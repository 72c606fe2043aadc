"""The kinds of cluster that andon has itself: each implements `ports.Cluster` in a folder."""
