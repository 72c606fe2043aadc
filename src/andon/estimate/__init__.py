"""How much GPU memory a model needs, and which GPUs it fits on."""
