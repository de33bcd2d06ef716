"""Kinds of operations in the results of `count_flops`."""

CONVOLUTION, DENSE, EXCITATION = "convolution", "dense", "SE"
# Parts of lambda and attention layers.
PROJECTIONS, CONTENT, POSITION = "projections", "content", "position"
