"""Images to train and test on, as tf.data pipelines without Python in them."""
