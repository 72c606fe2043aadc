"""What a container engine's answers mean."""
