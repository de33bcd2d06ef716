"""Experiments: what is missing is trained, statistics are right, and files are read again."""

import itertools
import json
import sys
from types import SimpleNamespace

import keras
import numpy as np
import pytest
from PIL import Image
from scipy import stats

from tools import experiment as module
from tools.experiment import Experiment, Images, claims, compare, main, read, rows, run
from zoo.data.sources import tfds
from zoo.fields import read_settings

ROW = {"model": {"placement": "CCCC"}}
TINY = {
    "data": "noise",
    "network": "lambda_resnet14",
    "model": {"filters": 4, "blocks": [0, 0, 0, 1], "key_dim": 2, "num_heads": 2},
    "optimizer": {"learning_rate": 0.1, "warmup_epochs": 0.1},
    "batch_size": 4,
    "images": 8,
    "seeds": [0, 1, 2],
    "rows": {"lambda": {}, "convolution": ROW, "few": {**ROW, "train_images": 6}},
    "tables": {
        "First": {"about": "Layers", "claims": ["lambda > convolution"]},
        "Second": {
            "about": "Images",
            "claims": ["lambda = convolution", "few = convolution"],
            "metrics": ["calibration_error"],
        },
    },
}

FIRST = TINY["tables"]["First"]


def noise(count: int, seed: int) -> Images:
    random = np.random.default_rng(seed)
    return Images(random.integers(0, 256, (count, 8, 8, 1), "uint8"), np.arange(count) % 3)


@pytest.fixture
def trained(monkeypatch):
    """Settings and seeds of the networks that were trained, which are not: results are drawn."""
    calls = []

    def prepare(settings, seed, train, steps):
        calls.append((settings["model"].get("placement"), settings["train_images"], seed))
        model = type("Model", (), {"trainable_variables": [np.zeros((2, 3)), np.zeros(4)]})
        return model, lambda: None

    def evaluate(model, tests, labels):
        value = 10.0 * len(calls[-1][0] or "") + calls[-1][2]
        return dict.fromkeys(module.METRICS, value)

    monkeypatch.setattr(module, "prepare", prepare)
    monkeypatch.setattr(module, "evaluate", evaluate)
    monkeypatch.setattr(module, "test_sets", lambda *_: {})
    return calls


def test_only_what_is_missing_is_trained(trained, tmp_path):
    """Rows of several tables are trained once, interrupted runs resumed, changed rows repeated."""
    output, data = tmp_path / "results.json", lambda *_: (noise(12, 0), noise(6, 1))
    experiment = Experiment(**TINY)
    run(experiment, output, data)
    assert trained == [
        *((place, None, seed) for seed in range(3) for place in (None, "CCCC")),
        *(("CCCC", 6, seed) for seed in range(3)),
    ]
    report = read(output)
    kept = [*report["runs"][:3], *report["runs"][4:]]  # as if killed: the second convolution
    output.write_text(json.dumps({**report, "runs": kept}))
    trained.clear()
    run(experiment, output, data)
    assert trained == [("CCCC", None, 1)]
    trained.clear()
    changed = {**TINY, "rows": {**TINY["rows"], "few": {**ROW, "train_images": 5}}}
    run(Experiment(**changed), output, data)
    assert trained == [("CCCC", 5, seed) for seed in range(3)]
    run(Experiment(**changed), output, data, timed=True)
    # A step takes the same time for any number of training images.
    assert [one["row"] for one in read(output)["times"]] == ["lambda", "convolution"]
    assert {one["parameters"] for one in read(output)["times"]} == {10}


def test_rows_and_verdicts_of_the_file(trained, tmp_path):
    output = tmp_path / "results.json"
    experiment = Experiment(**TINY)
    run(experiment, output, lambda *_: (noise(12, 0), noise(6, 1)))
    report = read(output)
    assert report["rows"] == [*rows(experiment, report), *claims(experiment, report)]
    first = report["rows"][0]
    assert (first["table"], first["row"], first["seeds"]) == ("First", "lambda", 3)
    assert (first["accuracy"], first["accuracy_sd"]) == (1, 1)
    verdicts = [(one["metric"], one["claim"], one["verdict"]) for one in claims(experiment, report)]
    assert verdicts == [
        ("accuracy", "lambda > convolution", "contradicted"),
        ("moved", "lambda > convolution", "contradicted"),
        ("calibration_error", "lambda = convolution", "contradicted"),
        ("calibration_error", "few = convolution", "no difference found"),
    ]
    for one in report["runs"]:  # Nothing is concluded from two seeds.
        one["seed"] += 10 * (one["seed"] == 2)
    report["runs"] = [one for one in report["runs"] if one["seed"] < 3]
    assert claims(experiment, report) == []


@pytest.mark.parametrize("seeds", [3, 6])
def test_paired_t_test(seeds):
    random = np.random.default_rng(seeds)
    first, second = random.normal(1, 1, seeds), random.normal(0, 1, seeds)
    found, expected = compare(first, second), stats.ttest_rel(first, second)
    interval = expected.confidence_interval(0.95)
    assert found.seeds == seeds
    assert found.difference == pytest.approx((first - second).mean())
    assert (found.low, found.high) == pytest.approx(tuple(interval))
    assert found.p == pytest.approx(expected.pvalue)
    # Of so large a true difference, about 80 % of such experiments find one.
    error = (first - second).std(ddof=1)
    drawn = random.normal(found.detectable, error, (4000, seeds))
    power = (stats.ttest_1samp(drawn, 0, axis=1).pvalue < 0.05).mean()
    assert power == pytest.approx(0.8, abs=0.08)


def test_verdicts():
    up, down, none = compare([2, 3, 4.1], [1, 2, 3]), compare([1, 2, 3], [2, 3, 4.1]), None
    none = compare([1, 2, 3], [3, 2, 1.1])
    assert [one.verdict(">") for one in (up, down, none)] == [
        "supported",
        "contradicted",
        "no difference found",
    ]
    assert [one.verdict(">", less_is_better=True) for one in (up, down)] == [
        "contradicted",
        "supported",
    ]
    assert [one.verdict("=") for one in (up, down)] == ["contradicted", "contradicted"]
    equal = compare([1, 2, 3], [1, 2, 3])
    assert (equal.p, equal.verdict("=")) == (1, "no difference found")
    assert compare([2, 3, 4], [1, 2, 3]).verdict(">") == "supported"


@pytest.mark.slow
def test_training_from_images_to_tables(tmp_path, monkeypatch, capsys):
    """Real networks: the same seed gives the same numbers, and the command prints them."""
    file, output = tmp_path / "tiny.yaml", tmp_path / "results.json"
    file.write_text(json.dumps({**TINY, "tables": {"First": TINY["tables"]["First"]}}))
    monkeypatch.setattr(module, "load", lambda *_: lambda *_: (noise(12, 0), noise(6, 1)))
    arguments = [str(file), "--output", str(output)]
    main(arguments)
    before = read(output)["runs"]
    assert len(before) == 6
    assert all(0 <= one["moved"] <= 100 and one["loss"] > 0 for one in before)
    output.write_text(json.dumps({**read(output), "runs": before[1:]}))
    main(arguments)
    again = read(output)["runs"][-1]
    assert (again["row"], again["seed"], again["settings"]) == (
        before[0]["row"],
        before[0]["seed"],
        before[0]["settings"],
    )
    assert again["loss"] == pytest.approx(before[0]["loss"], rel=1e-4)
    assert "| lambda > convolution | accuracy |" in capsys.readouterr().out
    main([*arguments, "--time", "true"])
    assert all(one["ms"] > 0 for one in read(output)["times"])


def test_moved_and_corrupted_images_are_near_the_originals():
    image = np.zeros((1, 28, 28, 1), "uint8")
    image[0, 12:16, 12:16] = 255
    sets = module.test_sets(Images(np.repeat(image, 50, 0), np.zeros(50, int)), (0.0, 1.0))
    rows, columns = np.array([np.argwhere(one[..., 0] > 100).mean(0) for one in sets["moved"]]).T
    for places in rows, columns:
        assert 13.5 - module.SHIFT - 0.5 <= places.min() < 11 < 16 < places.max() < 18
    assert len({one.tobytes() for one in sets["moved"]}) == 50
    for name in module.CORRUPTIONS:
        assert sets[name].shape == (50, 28, 28, 1)
        assert 0 < np.abs(sets[name] - sets["accuracy"]).mean() < 60


def test_the_fastest_round_counts(trained, tmp_path, monkeypatch):
    rounds = itertools.cycle([9, 3, 2, 4, 5, 6])  # the first one compiles
    clock = itertools.chain.from_iterable((0, seconds) for seconds in rounds)
    monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=clock.__next__))
    output, data = tmp_path / "results.json", lambda *_: (noise(12, 0), noise(6, 1))
    run(Experiment(**TINY), output, data, timed=True)
    assert {one["ms"] for one in read(output)["times"]} == {1000 * 2 / module.TIMED_STEPS}


CELLS = {
    **TINY,
    "data": "elpv",
    "class_weights": True,
    "rows": {"small": {"image_size": 8}, "large": {"image_size": 16}},
    "tables": {"First": {"about": "Size", "claims": ["large > small"], "metrics": ["roc_auc"]}},
}


@pytest.fixture
def cells(tmp_path):
    """Bright cells, one in three, are defective; each of four runs has its own shade."""
    (tmp_path / "images").mkdir()
    lines = []
    for number in range(240):
        gray = np.full((30, 30), (200 if number % 3 == 0 else 50) + number // 60, "uint8")
        Image.fromarray(gray).save(tmp_path / "images" / f"{number}.png")
        lines.append(f"images/{number}.png {float(number % 3 == 0)} mono")
    (tmp_path / "labels.csv").write_text("\n".join(lines))
    return tmp_path


def test_halves_of_solar_cells(cells):
    data = module.load(Experiment(**CELLS), cells)
    halves = [data(16, seed) for seed in range(4)]
    for train, test in halves:
        assert train.images.shape == test.images.shape == (120, 16, 16, 1)
        for part in train, test:
            np.testing.assert_array_equal(part.labels == 0, part.images[:, 0, 0, 0] >= 200)
        shades = [{*(part.images[:, 0, 0, 0] % 50).tolist()} for part in (train, test)]
        assert not set.intersection(*shades)
    assert data(8, 0)[0].images.shape == (120, 8, 8, 1)
    assert len({train.images.tobytes() for train, _ in halves}) > 1
    with pytest.raises(ValueError, match=r"folder with labels\.csv"):
        module.load(Experiment(**CELLS), cells / "images")


@pytest.mark.parametrize("held_out", [0, 2])
def test_held_out_images_are_not_trained_on(held_out, monkeypatch):
    """They are the last training images, in place of the test images."""
    splits = [
        (noise(count, 0).images, np.arange(count) + first) for count, first in ((6, 0), (3, 90))
    ]
    parts = [[SimpleNamespace(numpy=lambda one=one: one) for one in split] for split in splits]
    builder = SimpleNamespace(as_dataset=lambda *_, **__: parts)
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", SimpleNamespace())
    monkeypatch.setattr(tfds, "find_builder", lambda *_: builder)
    train, test = module.load(Experiment(**TINY, held_out=held_out), None)(None, 0)
    assert train.labels.tolist() == [*range(6 - held_out)]
    assert test.labels.tolist() == ([4, 5] if held_out else [90, 91, 92])
    for part in (train, test):
        assert len(part.images) == len(part.labels)


def test_every_seed_and_size_has_its_images(cells, trained, tmp_path, monkeypatch):
    seen, prepare = [], module.prepare

    def seeing(settings, seed, train, steps):
        seen.append((settings["image_size"], seed, train.images.shape, train.images.dtype))
        assert abs(train.images.mean()) < 1e-5
        return prepare(settings, seed, train, steps)

    monkeypatch.setattr(module, "prepare", seeing)
    monkeypatch.setattr(module, "evaluate", lambda *_: dict.fromkeys(module.OF_CELLS, 1.0))
    experiment, output = Experiment(**CELLS), tmp_path / "results.json"
    run(experiment, output, module.load(experiment, cells))
    assert seen == [
        (size, seed, (120, size, size, 1), "float32") for seed in range(3) for size in (16, 8)
    ]
    assert [one["metric"] for one in claims(experiment, read(output))] == ["roc_auc"]


def test_results_without_later_settings_are_those_of_the_defaults(trained, tmp_path):
    experiment, output = Experiment(**TINY), tmp_path / "results.json"
    run(experiment, output, lambda *_: (noise(12, 0), noise(6, 1)))
    report = read(output)
    for one in report["runs"]:
        for name in module.LATER:
            del one["settings"][name]
    assert len(module.found(report, "runs", experiment.settings("few"))) == 3
    from_weights = {**TINY, "rows": {**TINY["rows"], "few": {**ROW, "weights": "w.weights.h5"}}}
    assert module.found(report, "runs", Experiment(**from_weights).settings("few")) == []


@pytest.fixture
def batches(monkeypatch) -> list:
    """Batches of every training, which trains nothing."""
    batches: list = []
    monkeypatch.setattr(keras.Model, "fit", lambda _, data, **__: batches.extend(data))
    return batches


def test_classes_count_as_much(batches):
    experiment = Experiment(**CELLS)
    labels = np.array([0, 1, 1, 1, 1, 1, 1, 1])
    train = Images(np.ones((8, 8, 8, 1), "float32"), labels)
    for seed in range(3):
        module.prepare(experiment.settings("small"), seed, train, 2)[1]()
    for _, classes, weights in batches:
        np.testing.assert_allclose(weights, np.where(classes == 0, 4, 4 / 7))
    assert len(batches) == 6


@pytest.mark.parametrize("weighted", [False, True])
def test_a_row_of_few_images_trains_on_these_alone(batches, weighted):
    """Others for each seed; they alone count for the weights of the classes."""
    parts = set()
    experiment = Experiment(**{**TINY, "class_weights": weighted})
    train = Images(
        np.arange(24.0, dtype="float32").repeat(64).reshape(24, 8, 8, 1), np.arange(24) % 2
    )
    for seed in range(3):
        batches.clear()
        module.prepare(experiment.settings("few"), seed, train, 9)[1]()
        seen = np.concatenate([images[:, 0, 0, 0] for images, *_ in batches])
        numbers, often = np.unique(seen, return_counts=True)
        assert often.tolist() == [6] * 6  # of 24 images, 6 are used in 6 passes
        counts = np.bincount(train.labels[numbers.astype(int)], minlength=2)
        parts.add(tuple(numbers))
        for _, classes, *weights in batches:
            expected = [6 / 2 / counts[classes]] if weighted else []
            np.testing.assert_allclose(weights, expected)
    assert len(parts) == 3


def test_metrics_of_two_classes():
    logits = np.array([[2, 0], [0, 1], [1, 3], [1, 0], [0, 4]], float)
    labels = np.array([0, 0, 1, 1, 1])
    model = type("Model", (), {"predict": lambda *_, **__: logits})
    found = module.evaluate(model, {"accuracy": logits}, labels)
    # One of two defective cells found, with one false alarm; 5 of 6 pairs are in order.
    assert (found["accuracy"], found["f1"]) == (60, 50)
    assert found["roc_auc"] == pytest.approx(100 * 5 / 6)
    assert "corrupted" not in found


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seeds": [0, 1]}, "at least 3"),
        ({"tables": {"T": {"about": "T", "claims": ["lambda > lamda"]}}}, "did you mean 'lambda'"),
        ({"tables": {"T": {"about": "T", "claims": ["lambda"]}}}, "expected A > B or A = B"),
        ({"rows": {"lambda": {"modell": {}}}}, "modell"),
        ({"data": "elpv"}, "expected image_size with elpv alone. Received: 'lambda'"),
        ({"rows": {"lambda": {"image_size": 8}}, "tables": {}}, "image_size with elpv alone"),
        ({"tables": {"T": {**FIRST, "metrics": ["f1"]}}}, "Received: 'f1'. Allowed: accuracy"),
    ],
)
def test_wrong_files(change, message, tmp_path):
    file = tmp_path / "wrong.yaml"
    file.write_text(json.dumps({**TINY, **change}))
    with pytest.raises(ValueError, match=message):
        main([str(file)])


@pytest.mark.parametrize("name", ["fashion_mnist", "fashion_mnist_rates"])
def test_experiments_of_the_project(name):
    experiment = Experiment(**read_settings(f"tools/experiments/{name}.yaml"))
    order = dict.fromkeys(experiment.order())
    assert {row for row, _ in order} == experiment.rows.keys()
    networks = [json.dumps(experiment.settings(row)) for row in experiment.rows]
    assert len(set(networks)) == len(networks)
