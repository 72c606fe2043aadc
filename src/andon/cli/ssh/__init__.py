"""`--ssh`: a command that is asked of other machines, and the far side that answers it."""
