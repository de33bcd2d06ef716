"""The lambda layer against another implementation on equal weights: lambda-networks (PyPI)."""

import pytest
from support import needs
from support.arrays import assert_near, normal, to_numpy

from lambda_keras.layers import LambdaLayer, position_lambdas

lambda_networks = needs.package("lambda_networks")
torch = needs.package("torch")

DEPTH, FILTERS, HEADS, KEY_DIM, SIZE = 6, 8, 2, 3, 7


def pointwise(weight, intra_depth):
    """A 1x1 convolution `(u features, depth, 1, 1)` as our `(depth, features u)` kernel."""
    weight = weight.detach().numpy()[:, :, 0, 0]
    weight = weight.reshape(intra_depth, -1, weight.shape[1])
    return weight.transpose(2, 1, 0).reshape(weight.shape[2], -1)


@pytest.mark.filterwarnings("ignore:torch.meshgrid")
@pytest.mark.parametrize("scope", [None, 5])
@pytest.mark.parametrize(
    ("implementation", "intra_depth"),
    [(name, u) for u in (1, 2) for name in position_lambdas.capable(intra_depth=u, axes=2)[1:]],
)
def test_equal_outputs_on_equal_weights(implementation, scope, intra_depth):
    torch.manual_seed(0)
    context = {"n": SIZE} if scope is None else {"r": scope}
    theirs = lambda_networks.LambdaLayer(
        DEPTH, dim_k=KEY_DIM, heads=HEADS, dim_out=FILTERS, dim_u=intra_depth, **context
    ).eval()
    if scope is None:
        embeddings = theirs.rel_pos_emb.detach().numpy().transpose(0, 1, 3, 2)
    else:
        # Its convolution has a bias, a constant lambda that the paper does not have.
        torch.nn.init.zeros_(theirs.pos_conv.bias)
        embeddings = theirs.pos_conv.weight.detach().numpy()[:, :, 0].transpose(2, 3, 1, 0)

    sizes = {"num_heads": HEADS, "key_dim": KEY_DIM, "intra_depth": intra_depth, "scope": scope}
    ours = LambdaLayer(FILTERS, implementation=implementation, **sizes)
    x = normal(2, SIZE, SIZE, DEPTH)
    ours.build(x.shape)
    ours.query_kernel.assign(pointwise(theirs.to_q.weight, 1))
    ours.key_kernel.assign(pointwise(theirs.to_k.weight, intra_depth))
    ours.value_kernel.assign(pointwise(theirs.to_v.weight, intra_depth))
    ours.position_embeddings.assign(embeddings)

    expected = theirs(torch.tensor(x.transpose(0, 3, 1, 2))).detach().numpy().transpose(0, 2, 3, 1)
    assert_near(to_numpy(ours(x)), expected)
