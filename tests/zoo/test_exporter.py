"""SavedModels: versions, verification, removal of bad ones."""

import json

import numpy as np
import pytest
import tensorflow as tf

from zoo import cli, export, exporter


@pytest.fixture(scope="module")
def exported(run, tmp_path_factory):
    """The first export of the run and where it lies."""
    output = tmp_path_factory.mktemp("exports")
    return exporter.export_run(run, output)


def test_signature(exported):
    serve = tf.saved_model.load(str(exported)).signatures["serving_default"]
    assert serve.structured_input_signature[1]["images"].shape.as_list() == [None, 16, 16, 3]
    for batch in (1, 3):
        answers = serve(images=tf.fill((batch, 16, 16, 3), 255.0))
        assert list(answers) == ["probabilities"]
        np.testing.assert_allclose(np.sum(answers["probabilities"], -1), np.ones(batch), 1e-5)


def test_last_line_is_the_accuracy_and_versions_go_up(run, exported, capsys):
    assert exported.parts[-2:] == ("lambda_resnet14", "1")
    before = (exported / "saved_model.pb").stat().st_mtime_ns
    export.main(["--run", str(run), "--output", str(exported.parents[1])])
    accuracy = json.loads((run / "metrics.json").read_text())["test"]["accuracy"]
    assert capsys.readouterr().out.splitlines()[-1] == (
        f"test accuracy {accuracy:.4f} (360 held-out images, exported SavedModel)"
    )
    assert sorted(path.name for path in exported.parent.iterdir()) == ["1", "2"]
    assert (exported / "saved_model.pb").stat().st_mtime_ns == before


def test_an_export_that_answers_otherwise_is_removed(run, tmp_path, monkeypatch):
    honest = exporter.predict
    monkeypatch.setattr(exporter, "predict", lambda *a: honest(*a) + 1e-4)
    with pytest.raises(ValueError, match=r"differs from Keras by 1\.0e-04.*removed"):
        exporter.export_run(run, tmp_path)
    assert list(tmp_path.rglob("*.pb")) == []
    assert list((tmp_path / "lambda_resnet14").iterdir()) == []


def test_export_of_a_weights_file(run, tmp_path):
    weights = run / "model.weights.h5"
    export.main(
        f"--model lambda_resnet14 --weights {weights} --classes 10 --image_size 16 "
        f"--output {tmp_path}".split()
    )
    assert (tmp_path / "lambda_resnet14" / "1" / "saved_model.pb").is_file()


def test_weights_of_other_classes(run, tmp_path):
    weights = run / "model.weights.h5"
    with pytest.raises(ValueError, match="do not fit the model"):
        exporter.export_weights("lambda_resnet14", weights, 7, 16, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_verification_has_no_keras(tmp_path):
    class NeedsKeras(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec((None, 2), tf.float32, name="images")])
        def serve(self, images):
            return {"probabilities": tf.py_function(_import_keras, [images], tf.float32)}

    module = NeedsKeras()
    tf.saved_model.save(module, str(tmp_path / "m"), {"serving_default": module.serve})
    images = np.ones((2, 2), "float32")
    with pytest.raises(ValueError, match="cannot be used without Keras"):
        exporter.verify(tmp_path / "m", images, np.zeros(2), images)


def _import_keras(images):
    import keras  # noqa: F401

    return images


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "expected --run, or --model and --weights"),
        ("--model lambda_resnet14", "expected --run, or --model and --weights"),
        ("--run a --model lambda_resnet14", "--run already says which model"),
        ("--model lambda_resnet15 --weights w", "did you mean 'lambda_resnet1"),
        ("--run nowhere", "expected the folder of a finished run. Received: 'nowhere'"),
    ],
)
def test_bad_arguments(monkeypatch, capsys, arguments, message):
    monkeypatch.setattr("sys.argv", ["export", *arguments.split()])
    with pytest.raises(SystemExit) as caught:
        cli.run(export.main)
    assert caught.value.code == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
