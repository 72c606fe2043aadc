"""Messages to the person who runs this: of jobs, runs, turns and alerts of their own."""
