"""Tables of models, published results and the paper's statements."""
