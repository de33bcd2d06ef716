"""Training, evaluation and export of the models in `lambda_keras`, on TensorFlow."""
