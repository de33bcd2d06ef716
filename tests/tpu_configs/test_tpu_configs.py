"""The recipes: complete, equal to the paper's tables, and fit for the networks they name."""

import dataclasses
import re
import shlex
from pathlib import Path

import pytest
import yaml
from support import networks
from support.networks import RECIPES

from lambda_keras.layers import LambdaLayer
from lambda_keras.models import specs
from lambda_keras.weights.fit import take_layers
from zoo import run_folder
from zoo.config import PseudoConfig, TrainConfig
from zoo.fields import configurations
from zoo.registry import create_model, find_model
from zoo.results import RESULTS
from zoo.train.network import create_network

ABLATIONS, FINE_TUNE = "resnet50_llll_i224_90ep", "lambda_resnet26t_fine_tune"
WARM_START, FASHION = "lambda_resnet50_warm_start", "lambda_resnet14_fashion_mnist"
PHOTOS = "fine_tune"  # of any network
OF_PSEUDO_LABELS = "_pseudo_labels"  # at the end of the names of their recipes
STRIKES_BACK = "_rsb_a"  # in the names of recipes of ResNet Strikes Back
IMAGENET_IMAGES = 1_281_167

PAPER = yaml.safe_load(Path(__file__).with_name("paper.yaml").read_text())


def table(name: str) -> dict:
    """A table of paper.yaml, whose rows have two keys."""
    return {tuple(key): row for key, row in PAPER[name]}


TABLE_20, TABLE_14, FIGURE_4 = map(table, ("table_20", "table_14", "figure_4"))
ABLATED = {name: [tuple(row) for row in rows] for name, rows in PAPER["ablated"].items()}
PROCEDURES = PAPER["procedures"]

every_recipe = pytest.mark.parametrize("name", [file.stem for file in RECIPES])


def place(name: str) -> Path:
    return Path(f"tpu_configs/{name}.yaml")


def load(name: str) -> TrainConfig:
    return TrainConfig.from_file(place(name))


def parse(command: str) -> TrainConfig:
    """The settings of a command as a comment has it."""
    assert command.startswith("python -m zoo.train ")
    return TrainConfig.from_command_line(shlex.split(command)[3:])


def head(name: str) -> list[str]:
    """The comments that a recipe begins with."""
    lines = place(name).read_text().splitlines()
    return [line for line in lines[: lines.index("model:")] if line.startswith("#")]


@every_recipe
def test_head_and_file_name_agree_with_contents(name):
    config = load(name)
    command, hardware, expected, *_ = head(name)
    parsed = parse(command.removeprefix("# Command: "))
    assert configurations()[str(parsed.config)].samefile(place(name))
    assert hardware.startswith("# Hardware: ")
    cores = re.match(r"# Hardware: (\d+) TPU", hardware)
    assert config.tpu_cores == (cores and int(cores[1]))
    assert expected.startswith("# Expected top-1: ")
    assert parsed.output_dir.parent == Path("runs")
    assert name.startswith(config.model.name) or name == PHOTOS
    rest = name.removeprefix(config.model.name).removeprefix("_clll")
    described = re.fullmatch(rf"_i(\d+)_(\d+)ep(?:{OF_PSEUDO_LABELS})?", rest)
    assert bool(described) == is_of_paper(name, config)
    assert name.endswith(OF_PSEUDO_LABELS) == (config.data.pseudo.dir is not None)
    if described:
        assert tuple(map(int, described.groups())) == (config.model.size, config.training.epochs)
        assert config.output_dir == Path("runs") / name


def is_of_paper(name: str, config: TrainConfig) -> bool:
    on_imagenet = config.data.name == "imagenet2012" and config.model.weights is None
    return on_imagenet and STRIKES_BACK not in name


@every_recipe
def test_imagenet_recipes_are_those_of_the_paper(name):
    config = load(name)
    # Without one in the file, the momentum of runs; the paper's recipes average by `training.ema`.
    momentum = 0
    if name.endswith("mobilenet_v2_i224_350ep") or name == FINE_TUNE or "image_folder" in name:
        momentum = 0.99
    elif STRIKES_BACK in name or name in (PHOTOS, WARM_START, FASHION) or "digits" in name:
        momentum = 0.9
    assert config.model.batch_norm_momentum == momentum
    if not is_of_paper(name, config):
        return
    mobile = config.optimizer.name == "rmsprop"
    rate = 0.1 * 256 / config.data.batch_size if mobile else 0.1
    assert config.optimizer.learning_rate == pytest.approx(rate)
    decay = {90: 1e-4, 350: 1e-5 if mobile else 4e-5}[config.training.epochs]
    optimizer = {"momentum": 0.9, "weight_decay": decay, "warmup_epochs": 5}
    optimizer["schedule"] = "exponential" if mobile else "cosine"
    assert optimizer.items() <= config.optimizer.model_dump().items()
    training = {"ema": 0.9999, "label_smoothing": 0.1, "precision": "mixed_bfloat16"}
    assert training.items() <= config.training.model_dump().items()
    assert (config.data.randaugment_magnitude is None) == (mobile or config.training.epochs == 90)
    cores, images = map(int, re.findall(r"(\d+) (?:TPU|images)", head(name)[1]))
    assert cores * images == config.data.batch_size  # of labeled images
    assert cores in (32, 64)
    assert config.data.batch_size in (2048, 4096)


@pytest.mark.parametrize("row", TABLE_20, ids=str)
def test_table_20(row):
    depth, size = row
    magnitude, dropout, stochastic_depth, latency, top1, with_pseudo_labels = TABLE_20[row]
    name = f"lambda_resnet{depth}_i{size}_350ep"
    config = load(name)
    assert (config.data.randaugment_magnitude, config.data.randaugment_layers) == (magnitude, 2)
    rates = {"dropout_rate": dropout, "stochastic_depth_rate": stochastic_depth}
    assert config.model.overrides == rates
    held_out = [*row] in PAPER["early_stopping"]
    assert bool(config.training.early_stopping_epochs) == held_out
    splits = ("train[20shard:]", "train[:20shard]") if held_out else ("train", "validation")
    assert (config.data.train_split, config.data.test_split) == splits
    _, hardware, expected, *others = head(name)
    if held_out:  # which leaves the validation set for the end
        evaluation = f"zoo.evaluate --run {config.output_dir} --data.test_split validation"
        assert others[0] == f"# Then: python -m {evaluation}"
    assert expected.startswith(f"# Expected top-1: {f'{top1} %' if top1 else 'not published'}")
    assert top1 or f"{with_pseudo_labels} %" in expected
    cores, hours = re.search(r"(\d+) TPU v3 cores, .* ([\d.]+) hours", hardware).groups()
    images = IMAGENET_IMAGES * (1004 / 1024 if held_out else 1)
    seconds = 350 * images * latency / 1024 * 8 / int(cores)
    assert float(hours) == pytest.approx(seconds / 3600, rel=5e-3)


@pytest.mark.parametrize("row", [row for row in TABLE_20 if TABLE_20[row][-1]], ids=str)
def test_pseudo_labels_of_table_19(row):
    """Recipes with pseudo-labels differ from those without in these settings alone."""
    depth, size = row
    same = f"lambda_resnet{depth}_i{size}_350ep"
    name, expected = same + OF_PSEUDO_LABELS, load(same)
    changed = {"output_dir": Path("runs") / name, "config": place(name)}
    pseudo = PseudoConfig(dir="selected", ratio=3, labels="soft")
    changed["data"] = expected.data.model_copy(update={"pseudo": pseudo})
    parts = {"gradient_accumulation_steps": 4}
    changed["training"] = expected.training.model_copy(update=parts)
    assert load(name) == expected.model_copy(update=changed)
    assert "--data.pseudo.dir gs://BUCKET/selected " in head(name)[0]
    assert f" {TABLE_20[row][-1]} % " in head(name)[2]
    hours, alone = (float(re.search(r"([\d.]+) hours", head(one)[1])[1]) for one in (name, same))
    assert hours == pytest.approx(4 * alone, rel=5e-3)


@pytest.mark.parametrize("row", TABLE_14, ids=str)
def test_table_14(row):
    model, size = row
    name = f"{model}_i{size}_350ep"
    assert f"{TABLE_14[row]} %" in head(name)[2]
    config, depth = load(name), int(re.search(r"\d+", model)[0])
    same = load(f"lambda_resnet{depth}_i{192 if depth == 101 else size}_350ep")
    assert config.model.overrides == same.model.overrides
    assert config.data.model_dump() == same.data.model_dump()


@pytest.mark.parametrize("row", FIGURE_4, ids=str)
def test_tables_15_and_16_and_figure_4(row):
    (name, size), (same, top1) = row, FIGURE_4[row]
    config, other = load(f"{name}_i{size}_350ep"), load(same)
    assert f" {top1} %" in head(config.output_dir.name)[2]
    network = {"placement": "CLLL", "scope": 7} if "clll" in name else {}
    assert config.model.overrides == {**other.model.overrides, **network}
    batch = {"batch_size": 2048}  # at 320 pixels 64 images of a core may not fit
    assert {**config.data.model_dump(), **batch} == {**other.data.model_dump(), **batch}
    assert config.training.model_dump() == other.training.model_dump()
    results = [one for one in RESULTS if (one.network, one.image_size) == (config.model.name, size)]
    assert top1 in {one.top1 for one in results if one.arguments == network}


@pytest.mark.parametrize("model", ["resnet50", "lambda_resnet50"])
@pytest.mark.parametrize("procedure", PROCEDURES)
def test_procedures_of_resnet_strikes_back(procedure, model):
    size, epochs, rate, decay, smoothing, magnitude, mixup, depth, top1 = PROCEDURES[procedure]
    name = f"{model}_rsb_{procedure}"
    config = load(name)
    assert (config.model.name, config.model.size) == (model, size)
    assert config.model.overrides.get("stochastic_depth_rate", 0) == depth
    assert (config.data.mixup, config.data.cutmix) == (mixup, 1)
    assert (config.data.randaugment_magnitude, config.data.batch_size) == (magnitude, 2048)
    assert config.optimizer.learning_rate * 2048 / 256 == pytest.approx(rate)
    assert (config.optimizer.name, config.optimizer.weight_decay) == ("lamb", decay)
    assert (config.training.epochs, config.training.label_smoothing) == (epochs, smoothing)
    assert config.training.loss == "binary_crossentropy"
    _, _, expected, first, *others = head(name)
    assert (f"{top1} %" in expected) == (model == "resnet50")
    assert f"Procedure {procedure.upper()} of ResNet Strikes Back" in first
    assert any("repeated" in line for line in others) == (procedure != "a3")


def test_ablations():
    rows = {}
    for line in head(ABLATIONS)[3:]:
        if line.startswith("# Table "):
            table = rows.setdefault(line.removeprefix("# "), [])
        elif match := re.fullmatch(r"#   ([\d.]+) %  (.*)", line):
            command = f"python -m zoo.train --config {ABLATIONS} {match[2]}"
            table.append((parse(command).model, float(match[1])))
    for model, top1 in rows.pop("Table 13"):
        assert find_model(model.name).top1 == top1
    for table, ablated in ABLATED.items():
        assert [(model.overrides, top1) for model, top1 in rows[table]] == ablated
        name = "resnet50_clll" if table == "Table 11" else "resnet50_llll"
        assert {model.name for model, _ in rows[table]} == {name}
    assert rows.keys() == ABLATED.keys()


def test_published_results_are_those_of_the_tables():
    """`zoo.registry` and the tables above were transcribed one without the other.

    tests/zoo/test_results.py builds the networks of the results and counts.
    """

    def of(table):
        return [one for one in RESULTS if one.table == table]

    for (depth, size), (*_, seconds, top1, with_pseudo_labels) in TABLE_20.items():
        named = f"lambda_resnet{depth}", size
        of_row = [one for one in of("Table 19") if (one.network, one.image_size) == named]
        both = {"ImageNet": top1, "ImageNet + pseudo-labels": with_pseudo_labels}
        expected = {data: (value, seconds) for data, value in both.items() if value}
        assert {one.data: (one.top1, one.seconds) for one in of_row} == expected
    assert {(one.network, one.image_size): one.top1 for one in of("Table 14")} == TABLE_14
    for table, ablated in ABLATED.items():
        defaults = {"key_dim": 16, "num_heads": 4, "intra_depth": 1}
        recipes = [(defaults | overrides, top1) for overrides, top1 in ablated]
        ours = [one for one in of(table) if one.network in ("resnet50_llll", "resnet50_clll")]
        published = [(defaults | one.arguments, one.top1) for one in ours]
        assert all(row in published for row in recipes), table
        known = [*recipes, (defaults, 78.4), (defaults | {"key_dim": 8}, 77.9)]
        assert all(row in known for row in published), table


@every_recipe
@networks.specs_alone()
def test_overrides_reach_the_network(name):
    """Of the networks by their names, tests/zoo/test_registry.py builds and counts all."""
    config = load(name).model
    spec = dataclasses.asdict(create_network(config, 1000))
    reached = {**spec["arguments"].get(spec.get("mixer"), {}), **spec}
    if letters := config.overrides.get("placement"):
        reached["placement"] = letters
        assert reached["mixer_blocks"] == specs.placement(spec["blocks"], letters)
    assert config.overrides.items() <= reached.items()


def test_warm_start_takes_all_but_the_lambda_layers():
    config = load(WARM_START).model
    network = create_network(config, 1000)
    source = create_model(str(config.weights_model), include_top=False)
    lambda_layers = networks.inner_layers(network, LambdaLayer)
    assert take_layers(network, source) == [*lambda_layers, network.get_layer("predictions")]


def test_fine_tuning_goes_on_from_its_first_run(tmp_path):
    first = load(FINE_TUNE)
    (tmp_path / run_folder.WEIGHTS).touch()
    text = " ".join(line.removeprefix("#").strip() for line in head(FINE_TUNE)[1:])
    weights = str(first.output_dir / run_folder.WEIGHTS)
    assert weights in text
    command = text[text.index("python -m") :]
    second = parse(command.replace(weights, str(tmp_path / run_folder.WEIGHTS)))
    assert first.model.freeze_backbone
    assert not second.model.freeze_backbone
    assert second.output_dir != first.output_dir
