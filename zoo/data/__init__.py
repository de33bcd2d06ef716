"""tf.data pipelines of training and test images."""
