"""Position lambdas in the order of the paper's Figure 3."""

from lambda_keras.layers.contraction import contract


def einsum(queries, values, dense):
    """Computes the position lambdas `(b, n, k, v)` and applies them."""
    lambdas = contract("nmuk,bmvu->bnkv", dense, values)
    return contract("bnhk,bnkv->bnhv", queries, lambdas)
