"""Mask R-CNN on COCO with backbones of the zoo, by TensorFlow's Model Garden."""
