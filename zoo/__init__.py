"""Training, export and benchmarks of `lambda_keras`; TensorFlow trains and exports."""
