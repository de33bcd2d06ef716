"""LambdaNetworks (Bello, ICLR 2021, arXiv:2102.08602) for Keras 3.

Importing it registers its layers with Keras: in a new process, `import lambda_keras` is all that
`keras.models.load_model("model.keras")` needs.
"""

from lambda_keras import applications, layers

__version__ = "0.1.0"

__all__ = ["applications", "layers"]
