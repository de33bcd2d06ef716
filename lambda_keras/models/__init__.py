"""Network builders: a spec in, a functional Keras model with named endpoints out."""
