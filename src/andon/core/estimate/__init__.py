"""How much memory a model needs. Empty until the estimator is added."""
