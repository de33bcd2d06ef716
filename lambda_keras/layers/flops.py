"""Names of the operations that `count_flops` methods of layers tell apart."""

CONVOLUTION, DENSE, EXCITATION = "convolution", "dense", "SE"
# Parts of lambda and attention layers.
PROJECTIONS, CONTENT, POSITION = "projections", "content", "position"
