"""The lambda layers of a network, from `LambdaSpec`."""

from collections.abc import Sequence
from dataclasses import asdict

from lambda_keras.layers import LambdaLayer, RelativePositionEmbedding
from lambda_keras.layers.position_embeddings import standardize_scope
from lambda_keras.models.specs import STAGES, LambdaSpec

# Whose initializers draw no seeds, so that a check changes no random numbers.
_INITIALIZERS = [f"{name}_initializer" for name in ("query", "key", "value", "embeddings")]


class LambdaLayers:
    """Makes the lambda layers of a network, and the table that they share if they do (Table 4).

    Args:
        spec: their hyper-parameters.
        places: for each lambda layer, the number of its stage and the depth of its outputs.
        inputs: images of the network.
        **arguments: other arguments of every `LambdaLayer`.

    Raises:
        ValueError: if the hyper-parameters do not fit the network; nothing is built then.
    """

    def __init__(self, spec: LambdaSpec, places: Sequence[tuple[int, int]], inputs, **arguments):
        self.spec, self.arguments, self.table = spec, arguments, None
        if len(spec.scopes) != len(STAGES):
            raise ValueError(
                f"expected scope to be one number, or one for each of the stages {STAGES}. "
                f"Received: scope={spec.scope}"
            )
        for scope in spec.scopes:
            standardize_scope(scope)
        if spec.position_embedding == "shared" and not isinstance(spec.scope, int):
            raise ValueError(
                "expected scope to be one odd integer for position_embedding='shared', which is "
                f"one table for all stages. Received: scope={spec.scope}"
            )
        unseeded = dict.fromkeys(_INITIALIZERS, "zeros")
        for stage, filters in dict.fromkeys(places):
            shape = (*inputs.shape[:-1], filters)
            self._layer(filters, stage, **unseeded).check_shapes(shape, shape)
        if not places:  # hyper-parameters that nothing uses may not be wrong either
            self._layer(1024, 0, **unseeded)

    def __call__(self, x, filters: int, stage: int, **arguments):
        """A new layer of a stage, with other arguments of `LambdaLayer`, on a feature map."""
        layer = self._layer(filters, stage, **arguments)
        if self.spec.position_embedding != "shared":
            return layer(x)
        if self.table is None:
            sizes = (self.spec.scopes[stage], self.spec.key_dim, self.spec.intra_depth)
            self.table = RelativePositionEmbedding(*sizes, name="position_embeddings")(x)
        return layer(x, position_embeddings=self.table)

    def _layer(self, filters, stage, **arguments) -> LambdaLayer:
        of_spec = {**asdict(self.spec), "scope": self.spec.scopes[stage]}
        return LambdaLayer(filters, **of_spec, **self.arguments, **arguments)
