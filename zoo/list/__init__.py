"""Tables of models and of published results."""
