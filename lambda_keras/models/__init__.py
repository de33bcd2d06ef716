"""Network builders: a spec in, a functional Keras model with named endpoints out."""

# Sets the attribute of the package even if a program imported `specs` first, without Keras.
from lambda_keras.models import specs as specs
