"""Asks a SavedModel, in a process with only TensorFlow and NumPy, as a server would.

`python verify_export.py SAVED_MODEL QUESTIONS.npz`, where the file has `images`, `labels` and
`expected` probabilities. Prints the largest difference and the accuracy as JSON.
"""

import json
import sys

# TensorFlow imports Keras wherever it is installed; None makes every import of it fail.
FORBIDDEN = ("keras", "tf_keras", "lambda_keras", "zoo")
if __name__ == "__main__":
    for name in FORBIDDEN:
        sys.modules[name] = None  # pyright: ignore[reportArgumentType]

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

BATCH_SIZE = 32


def main(saved_model: str, questions: str) -> None:
    """Loads both, compares, prints."""
    serve = tf.saved_model.load(saved_model).signatures["serving_default"]
    with np.load(questions, allow_pickle=False) as file:
        images, labels, expected = file["images"], file["labels"], file["expected"]
    answers = np.concatenate(
        [
            serve(images=tf.constant(images[i : i + BATCH_SIZE]))["probabilities"].numpy()
            for i in range(0, len(images), BATCH_SIZE)
        ]
    )
    imported = [name for name in FORBIDDEN if sys.modules.get(name) is not None]
    if imported:
        sys.exit(f"expected a process without {', '.join(FORBIDDEN)}. Received: {imported}")
    print(
        json.dumps(
            {
                "max_difference": float(np.abs(answers - expected).max()),
                "accuracy": float((answers.argmax(-1) == labels).mean()),
            }
        )
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
