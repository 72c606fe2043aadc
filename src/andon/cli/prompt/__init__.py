"""`andon prompt`: one line for the prompt of a shell, a bar or an editor."""
