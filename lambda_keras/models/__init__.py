"""Network builders: a spec in, a functional Keras model with named endpoints out."""

# An attribute of the package even where a program imported it first, without Keras.
from lambda_keras.models import specs as specs
