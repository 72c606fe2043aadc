"""How much GPU memory a model needs to serve or to train, and which GPUs it fits on."""
