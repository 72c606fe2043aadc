"""What a loop's steps say about it."""
