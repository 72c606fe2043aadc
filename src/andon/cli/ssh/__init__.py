"""`--ssh`: runs a command on other machines, and the far side that answers."""
