"""The models by name."""

import pytest
from support import networks

from lambda_keras import applications
from lambda_keras.models.specs import NETWORKS
from zoo.registry import create_model, find_model, list_models


def test_pretrained_models_are_those_with_published_weights():
    pretrained = [name for name, row in NETWORKS.items() if row.weights]
    assert list_models("nothing*") == []
    assert list_models(pretrained=True) == pretrained
    assert list_models("lambda*50ts", pretrained=True) == ["lambda_resnet50ts"]
    for name in pretrained:
        row = find_model(name)
        for key, one in row.weights.items():
            assert row.size_for(key) == one.image_size
            if row.source == "timm":
                assert (row.top1, row.image_size) == (one.top1, one.image_size)
        data = next(iter(row.weights)).partition("-")[0]
        assert row.size_for(data) == next(iter(row.weights.values())).image_size
        assert row.size_for("some.weights.h5") == row.image_size


def test_names_of_weights():
    row = find_model("resnet_rs152")
    assert [row.size_for(key) for key in ("imagenet", "imagenet-i224")] == [256, 224]
    with pytest.raises(ValueError, match="one of imagenet, imagenet-i256, imagenet-i224, imagenet"):
        row.size_for("imagenet-i300")
    with pytest.raises(ValueError, match="of 'resnet50'; resnet50_pytorch has some"):
        find_model("resnet50").size_for("imagenet")


def test_accuracy_has_a_source_and_a_recipe():
    for row in NETWORKS.values():
        assert (row.top1 is None) == (row.source == "") == (row.recipe == ""), row.name


def test_rows_are_those_of_golden():
    """To the unit and to the printed digits, wherever the sizes are the same."""
    golden = networks.GOLDEN
    expected = {
        form.format(depth): {**row[column], "size": row["image_size"]}
        for depth, row in golden["resnet_rs_family"].items()
        for form, column in networks.FORMS.items()
    }
    for letters, row in golden["table13_resnet50_224_placement"].items():
        expected["resnet50" if letters == "CCCC" else f"resnet50_{letters.lower()}"] = row
    mobilenets = golden["table17_mobilenet_v2_224"]
    expected["mobilenet_v2"] = mobilenets["plain"]
    expected["lambda_mobilenet_v2"] = mobilenets["lambda_10_16_literal"]
    for name, row in expected.items():
        assert find_model(name).parameters == row["trainable_params"], name
        if row.get("size", 224) == find_model(name).image_size:
            gflops = row["gflops"] if "gflops" in row else row["mflops"] / 1e3
            assert find_model(name).gflops == pytest.approx(gflops, abs=5.1e-4), name
    other_sizes = {n for n, r in expected.items() if r.get("size", 224) != find_model(n).image_size}
    assert other_sizes == {"lambda_resnet101"}


@networks.undrawn()
def test_arguments_override_those_of_the_row():
    model = create_model("resnet50_cccl", placement="CCCC", include_top=False)
    assert networks.lambda_blocks(model) == []


@pytest.mark.parametrize("name", ["lambda_resnet14", "lambda_resnet50", "resnet50_llll"])
@networks.specs_alone()
def test_an_argument_has_one_spelling(name):
    """The constructor's is that of overrides; old runs may have a mapping for the mixer."""
    constructor, row = getattr(applications, NETWORKS[name].constructor), NETWORKS[name].arguments
    spec = create_model(name, scope=7)
    assert spec == constructor(scope=7, **row) == create_model(name, mixer_arguments={"scope": 7})
    assert spec.arguments == {"lambda": {"scope": 7}}
    old = create_model(name, mixer="halo", mixer_arguments={"block_size": 8}, num_heads=2)
    assert old == constructor(mixer="halo", block_size=8, num_heads=2, **row)
