"""What kinds of clusters decide alike."""
