"""Position lambdas as one matrix product for the whole batch."""

from lambda_keras.layers.contraction import contract
from lambda_keras.layers.position_lambdas.apply import apply_lambdas


def dense_matmul(queries, values, dense):
    """Multiplies `(n k, m u)` by `(m u, b v)`, and applies the lambdas in the order they come."""
    lambdas = contract("nmuk,bmvu->nkbv", dense, values)
    return apply_lambdas("bnhk,nkbv->bnhv", queries, lambdas)
