"""How much GPU memory a model needs to serve or to train, and which GPUs it fits on.

First the dimensions of the model (`shape`), from its config.json, the headers of its weights
(safetensors, GGUF) or its name; then what a GPU holds of it: weights, cache, serving or training
state; then what an engine refuses, where it fits, and peaks of earlier runs (`learned`).
"""
