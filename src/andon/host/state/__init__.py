"""Where this user's and this machine's state is kept."""
