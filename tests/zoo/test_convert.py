"""Converting weights, and the model card beside them."""

import contextlib
import hashlib
import pickle
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from safetensors.numpy import save_file
from support import commands, needs, networks
from support.damage import full_disk
from support.lfs import LFS_POINTER, PULL

from lambda_keras import applications
from lambda_keras.weights.state_dicts import SCHEMES, expected_tensors
from tools.timm_parity import filled
from zoo.convert import command as convert
from zoo.convert.__main__ import main
from zoo.registry import create_model, find_model


@pytest.fixture
def saved(tmp_path) -> Path:
    """Weights of lambda_resnet14 with 3 classes."""
    model = create_model("lambda_resnet14", classes=3)
    networks.randomize(model)
    path = tmp_path / "source.weights.h5"
    model.save_weights(path)
    return path


def run(model, weights, output, *more) -> str:
    """Converts weights; returns their card."""
    main(["--model", model, "--weights", str(weights), "--output", str(output), *more])
    return output.with_name(output.name.replace(".weights.h5", ".md")).read_text("utf-8")


def small_run(saved, output, *more) -> str:
    return run("lambda_resnet14", saved, output, "--overrides", "classes=3", *more)


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_keras_weights_and_their_card(saved, tmp_path, capsys):
    output = tmp_path / "new" / "digits.weights.h5"
    text = small_run(saved, output)
    card = output.with_name("digits.md")
    assert capsys.readouterr().out == f"wrote {output}\nwrote {card}\n"
    assert sorted(output.parent.iterdir()) == [card, output]
    for expected in (
        f"| SHA-256 of the source | `{sha256(saved)}` |",
        f"| SHA-256 of `digits.weights.h5` | `{sha256(output)}` |",
        "| Source | `source.weights.h5` |",
        "| Images | RGB, 32 x 32 pixels |",
        "| Mean | 0.485, 0.456, 0.406, of values in [0, 1]; `preprocess_input` applies it |",
        "| Standard deviation | 0.229, 0.224, 0.225 |",
        "| License | that of the source |",
    ):
        assert expected in text.splitlines()
    code = text.split("```python\n")[1].split("```")[0]
    names = {}
    with contextlib.chdir(output.parent):
        exec(code, names)
    assert f"| Trainable parameters | {networks.trainable_parameters(names['model']):,} |" in text
    source = applications.LambdaResNet14(classes=3, weights=saved)
    np.testing.assert_equal(names["model"].get_weights(), source.get_weights())


def test_packaged_weights(tmp_path):
    output = tmp_path / "clothes.weights.h5"
    text = run("lambda_resnet14", "fashion_mnist", output)
    assert "| Source | `fashion_mnist`, lambda_keras/weights/lambda_resnet14_fashion_mnist" in text
    assert (
        "| Images | RGB, 28 x 28 pixels |\n| Preprocessing | resized to 28 x 28 pixels, bilinear"
        in text
    )
    assert "LambdaResNet14(classes=10, weights='clothes.weights.h5')" in text
    source = applications.LambdaResNet14(weights="fashion_mnist")
    converted = applications.LambdaResNet14(classes=10, weights=output)
    np.testing.assert_equal(converted.get_weights(), source.get_weights())


def test_card_has_the_arguments_of_the_row(saved, tmp_path):
    """With the weights of a smaller network."""
    small = create_model("lambda_resnet14", classes=3)
    words = ["--model", "resnet50_ccll", "--weights", str(saved), "--overrides", "scope=7"]
    words += ["--output", str(tmp_path / "a.weights.h5")]
    convert.run(commands.parse("zoo.convert", words), lambda *_, **__: small)
    call = "ResNet50(placement='CCLL', scope=7, weights='a.weights.h5')"
    assert call in (tmp_path / "a.md").read_text("utf-8")


def test_card_has_the_size_of_the_weights(saved):
    fields = convert.card_fields(find_model("resnet_rs101"), "imagenet-i160", saved, saved)
    assert fields["Images"] == "RGB, 160 x 160 pixels"


def test_full_disk(saved, tmp_path, capsys):
    """HDF5 would end the process, so it only ever writes to memory."""
    output = tmp_path / "new" / "a.weights.h5"
    words = f"--model lambda_resnet14 --weights {saved} --output {output} --overrides classes=3"
    with full_disk(10_000):
        line = commands.fail(main, capsys, *words.split())
    assert line == f"error: [Errno 27] File too large: '{output}'\n"
    assert not output.parent.exists()


@pytest.mark.slow
def test_published_weights(tmp_path, monkeypatch):
    """From a file like that of the hub; tests/weights/test_hub.py downloads one."""
    from lambda_keras.weights import hub

    tensors = expected_tensors(create_model("lambda_resnet26t"), SCHEMES[0])
    folder = tmp_path / "snapshots" / "0123456789"
    folder.mkdir(parents=True)
    path = folder / "model.safetensors"
    save_file(filled({tensor.key: tensor.shape for tensor in tensors}), path)
    monkeypatch.setattr(hub, "fetch", lambda *_: path)
    for weights in ("imagenet", "hf://timm/lambda_resnet26t.c1_in1k@main"):
        output = tmp_path / "lambda_resnet26t.weights.h5"
        text = run("lambda_resnet26t", weights, output, "--overwrite", "true")
        for expected in (
            'model = LambdaResNet26T(weights="lambda_resnet26t.weights.h5")'.replace('"', "'"),
            "| Trainable parameters | 10,958,272 |",
            f"| Source | `{weights}`, `model.safetensors` of commit `0123456789` of "
            "https://huggingface.co/timm/lambda_resnet26t.c1_in1k |",
            f"| SHA-256 of the source | `{sha256(path)}` |",
            "| License | Apache-2.0 |",
            "| Images | RGB, 256 x 256 pixels |",
            "| Preprocessing | shorter side resized to 272 pixels, bicubic, antialiased; central "
            "square of 256 x 256 pixels |",
        ):
            assert expected in text.splitlines()
    text = run("lambda_resnet26t", "hf://me/mine", output, "--overwrite", "true")
    assert "| License | that of the source |" in text
    assert "bicubic" not in text


def test_nothing_is_overwritten_unless_told(saved, tmp_path):
    output, card = tmp_path / "out.weights.h5", tmp_path / "out.md"
    for there in (output, card):
        there.write_text("precious")
        with pytest.raises(ValueError, match=rf"--overwrite true\. Received: .*{there.name}"):
            small_run(saved, output)
        assert there.read_text() == "precious"
        there.unlink()
    assert not output.exists()
    card.touch()
    assert "SHA-256" in small_run(saved, output, "--overwrite", "true")


def test_pytorch_is_asked_for(tmp_path, modules):
    modules(torch=None)
    (tmp_path / "a.pth").write_bytes(b"")
    with pytest.raises(ImportError, match=r"^torch is not installed: pip .*SOURCE\[convert\]'"):
        run("lambda_resnet14", tmp_path / "a.pth", tmp_path / "a.weights.h5")


def test_pointer_of_git_lfs_is_named(tmp_path, modules):
    modules(torch=SimpleNamespace(load=lambda *_, **options: 1 / 0))
    (tmp_path / "a.pth").write_bytes(LFS_POINTER)
    with pytest.raises(ValueError, match=rf"intact PyTorch checkpoint .*\({PULL}\)$"):
        convert.read_pytorch(tmp_path / "a.pth")


def test_code_in_pickles_is_refused_by_pytorch(modules):
    given = []
    load = lambda _, **options: given.append(options) or {"epoch": 3}  # noqa: E731
    modules(torch=SimpleNamespace(load=load, is_tensor=lambda _: False))
    with pytest.raises(ValueError, match="with tensors by name"):
        convert.read_pytorch(Path("a.pth"))
    assert given == [{"map_location": "cpu", "weights_only": True}]


class Malicious:
    """A pickle of it writes a file when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.write_text, (self.path, "owned")


def test_code_in_a_checkpoint_is_not_run(tmp_path):
    torch = needs.package("torch")
    victim = tmp_path / "victim"
    torch.save({"state_dict": {"a": Malicious(victim)}}, tmp_path / "new.pth")
    (tmp_path / "old.pth").write_bytes(pickle.dumps(Malicious(victim), protocol=2))
    for name in ("new.pth", "old.pth"):
        with pytest.raises(ValueError, match=r"tensors and plain values, without code.*\.pth"):
            run("lambda_resnet14", tmp_path / name, tmp_path / "a.weights.h5")
    assert not victim.exists()
    pickle.loads((tmp_path / "old.pth").read_bytes())
    assert victim.read_text() == "owned"  # it does what this test is about


def test_checkpoints_that_are_none(tmp_path):
    torch = needs.package("torch")
    path = tmp_path / "a.pth"
    for content in ([torch.ones(2)], {"epoch": 3}, {"state_dict": 5}):
        torch.save(content, path)
        with pytest.raises(ValueError, match="with tensors by name"):
            convert.read_pytorch(path)
    for tensor, received in (
        (torch.ones(2, 2).to_sparse(), r"'a', torch\.sparse_coo on cpu"),
        (torch.ones(2, device="meta"), r"'a', torch\.strided on meta"),
    ):
        torch.save({"a": tensor}, path)
        with pytest.raises(ValueError, match=rf"dense tensors in .*\. Received: {received}"):
            convert.read_pytorch(path)
    torch.save({"a": torch.ones(1000)}, path)
    whole = path.read_bytes()
    for damaged in (b"", b"text", whole[:100], whole[: len(whole) // 2]):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="expected an intact PyTorch checkpoint"):
            convert.read_pytorch(path)


def test_parameters_and_tensors_that_need_gradients(tmp_path):
    """Parameters as in `dict(module.named_parameters())`."""
    torch = needs.package("torch")
    state = {"a": torch.nn.Parameter(torch.arange(3.0)), "b": torch.arange(3.0).bfloat16()}
    state["b"].requires_grad_()
    torch.save(state, tmp_path / "a.pth")
    arrays = convert.read_pytorch(tmp_path / "a.pth")
    assert {key: array.tolist() for key, array in arrays.items()} == {
        "a": [0, 1, 2],
        "b": [0, 1, 2],
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "scheme", "nested"),
    [("lambda_resnet26t", 0, False), ("resnet50_llll_pytorch", -1, True)],
)
def test_checkpoints_of_pytorch(tmp_path, name, scheme, nested):
    torch = needs.package("torch")
    model = create_model(name, classes=3)
    shapes = {tensor.key: tensor.shape for tensor in expected_tensors(model, SCHEMES[scheme])}
    state = {key: torch.from_numpy(array) for key, array in filled(shapes).items()}
    path = tmp_path / "model.pth.tar"
    if nested:
        state = {f"module.{key}": tensor for key, tensor in state.items()}
        state["module.bn1.num_batches_tracked"] = torch.tensor(7)
        torch.save({"epoch": 130, "best": torch.tensor(78.2), "state_dict": state}, path)
    else:
        torch.save({key: tensor.bfloat16() for key, tensor in state.items()}, path)
    output = tmp_path / "out.weights.h5"
    run(name, path, output, "--overrides", "classes=3")
    model.load_weights(output)
    key = {0: "head.fc.bias", -1: "module.fc.bias"}[scheme]
    bias = state[key] if nested else state[key].bfloat16().float()
    np.testing.assert_array_equal(model.get_layer("predictions").bias.numpy(), bias.numpy())
