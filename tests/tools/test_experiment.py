"""Experiments: what is missing is trained, statistics are right, and files are read again."""

import itertools
import json
import time
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow_datasets as tfds
from PIL import Image
from scipy import stats
from support.record_files import write_tfds

from tools import experiment as module
from tools.experiment import Experiment, Images, claims, compare, main, read, rows, run
from zoo.fields import read_settings

ROW = {"model": {"placement": "CCCC"}}
FIRST = {"about": "Layers", "claims": ["lambda > convolution"]}
SECOND = {"about": "Images", "claims": ["lambda > convolution", "few = convolution"]}
SECOND["metrics"] = ["calibration_error"]
TINY = {
    "data": "noise",
    "network": "lambda_resnet14",
    "model": {"filters": 4, "blocks": [0, 0, 0, 1], "key_dim": 2, "num_heads": 2},
    "optimizer": {"learning_rate": 0.1, "warmup_epochs": 0.1},
    "batch_size": 4,
    "images": 8,
    "seeds": [0, 1, 2],
    "rows": {"lambda": {}, "convolution": ROW, "few": {**ROW, "train_images": 6}},
    "tables": {"First": FIRST, "Second": SECOND},
}


def noise(count: int, seed: int) -> Images:
    random = np.random.default_rng(seed)
    return Images(random.integers(0, 256, (count, 8, 8, 1), "uint8"), np.arange(count) % 3)


class Trained(list):
    """Settings and seeds of the networks that were trained, which are not: results are drawn."""

    def __init__(self, output):
        self.output, self.seen = output, []

    def prepare(self, settings, seed, train, steps):
        self.append((settings["model"].get("placement"), settings["train_images"], seed))
        self.seen.append((settings["image_size"], seed, train.images))
        return SimpleNamespace(trainable_variables=[np.zeros((2, 3)), np.zeros(4)]), lambda: None

    def evaluate(self, model, tests, labels):
        value = 10.0 * len(self[-1][0] or "") + self[-1][2]
        return dict.fromkeys({*module.METRICS, *module.OF_CELLS}, value)

    def run(self, changes=None, data=lambda *_: (noise(12, 0), noise(6, 1)), clock=None, **options):
        """The results of the experiment with some changes, in the file that there is."""
        self.clear()
        work = module.Work(self.prepare, self.evaluate, lambda *_: {}, clock or time.perf_counter)
        run(Experiment(**{**TINY, **(changes or {})}), self.output, data, work=work, **options)
        return read(self.output)


@pytest.fixture
def trained(tmp_path):
    return Trained(tmp_path / "results.json")


def test_only_what_is_missing_is_trained(trained):
    """Rows of several tables are trained once, interrupted runs resumed, changed rows repeated."""
    report = trained.run()
    assert trained == [
        *((place, None, seed) for seed in range(3) for place in (None, "CCCC")),
        *(("CCCC", 6, seed) for seed in range(3)),
    ]
    kept = [*report["runs"][:3], *report["runs"][4:]]  # as if killed: the second convolution
    trained.output.write_text(json.dumps({**report, "runs": kept}))
    trained.run()
    assert trained == [("CCCC", None, 1)]
    changed = {"rows": {**TINY["rows"], "few": {**ROW, "train_images": 5}}}
    trained.run(changed)
    assert trained == [("CCCC", 5, seed) for seed in range(3)]
    times = trained.run(changed, timed=True)["times"]
    # A step takes the same time for any number of training images.
    assert [one["row"] for one in times] == ["lambda", "convolution"]
    assert {one["parameters"] for one in times} == {10}


def test_rows_and_verdicts_of_the_file(trained):
    report, experiment = trained.run(), Experiment(**TINY)
    assert report["rows"] == [*rows(experiment, report), *claims(experiment, report)]
    first = {"table": "First", "row": "lambda", "seeds": 3, "accuracy": 1, "accuracy_sd": 1}
    assert report["rows"][0].items() >= first.items()
    verdicts = [(one["metric"], one["claim"], one["verdict"]) for one in claims(experiment, report)]
    assert verdicts == [
        ("accuracy", "lambda > convolution", "contradicted"),
        ("moved", "lambda > convolution", "contradicted"),
        ("calibration_error", "lambda > convolution", "supported"),
        ("calibration_error", "few = convolution", "no difference found"),
    ]
    report["runs"] = [one for one in report["runs"] if one["seed"] < 2]
    assert claims(experiment, report) == []  # Nothing is concluded from two seeds.


@pytest.mark.parametrize("seeds", [3, 6])
def test_paired_t_test(seeds):
    random = np.random.default_rng(seeds)
    first, second = random.normal(1, 1, seeds), random.normal(0, 1, seeds)
    differences, found = first - second, compare(first, second)
    expected = stats.ttest_rel(first, second)
    assert (found.seeds, found.difference) == pytest.approx((seeds, differences.mean()))
    assert (found.low, found.high) == pytest.approx(tuple(expected.confidence_interval(0.95)))
    assert found.p == pytest.approx(expected.pvalue)
    # Of so large a true difference, about 80 % of such experiments find one.
    drawn = random.normal(found.detectable, differences.std(ddof=1), (4000, seeds))
    power = (stats.ttest_1samp(drawn, 0, axis=1).pvalue < 0.05).mean()
    assert power == pytest.approx(0.8, abs=0.08)


def test_verdicts():
    up, down = compare([2, 3, 4.1], [1, 2, 3]), compare([1, 2, 3], [2, 3, 4.1])
    none, equal = compare([1, 2, 3], [3, 2, 1.1]), compare([1, 2, 3], [1, 2, 3])
    yes, no, unknown = "supported", "contradicted", "no difference found"
    assert [one.verdict(">") for one in (up, down, none)] == [yes, no, unknown]
    assert [one.verdict(">", less_is_better=True) for one in (up, down)] == [no, yes]
    assert [one.verdict("=") for one in (up, down, equal)] == [no, no, unknown]
    assert equal.p == 1
    assert compare([2, 3, 4], [1, 2, 3]).verdict(">") == yes


@pytest.fixture
def prepared(tmp_path):
    """The folder of a data set of TFDS, of noise; its labels are their numbers, modulo three."""
    train, test = ([*zip(*noise(*one), strict=True)] for one in ((6, 0), (3, 1)))
    image = tfds.features.Image(shape=(8, 8, 1))
    write_tfds(tmp_path, "noise", {"train": train, "test": test}, image=image)
    return tmp_path


@pytest.mark.slow
def test_training_from_images_to_tables(prepared, tmp_path, capsys):
    """Real networks: the same seed gives the same numbers, and the command prints them."""
    file, output = tmp_path / "tiny.yaml", tmp_path / "results.json"
    file.write_text(json.dumps({**TINY, "tables": {"First": FIRST}}))
    arguments = [str(file), "--output", str(output), "--data_dir", str(prepared)]
    main(arguments)
    before = read(output)["runs"]
    assert len(before) == 6
    assert all(0 <= one["moved"] <= 100 and one["loss"] > 0 for one in before)
    output.write_text(json.dumps({**read(output), "runs": before[1:]}))
    main(arguments)
    again, names = read(output)["runs"][-1], ("row", "seed", "settings")
    assert [again[name] for name in names] == [before[0][name] for name in names]
    assert again["loss"] == pytest.approx(before[0]["loss"], rel=1e-4)
    assert "| lambda > convolution | accuracy |" in capsys.readouterr().out
    main([*arguments, "--time", "true"])
    assert all(one["ms"] > 0 for one in read(output)["times"])


def test_moved_and_corrupted_images_are_near_the_originals():
    image = np.zeros((1, 28, 28, 1), "uint8")
    image[0, 12:16, 12:16] = 255
    sets = module.test_sets(Images(np.repeat(image, 50, 0), np.zeros(50, int)), (0.0, 1.0))
    for places in np.array([np.argwhere(one[..., 0] > 100).mean(0) for one in sets["moved"]]).T:
        assert 13.5 - module.SHIFT - 0.5 <= places.min() < 11 < 16 < places.max() < 18
    assert len({one.tobytes() for one in sets["moved"]}) == 50
    for name in module.CORRUPTIONS:
        assert sets[name].shape == (50, 28, 28, 1)
        assert 0 < np.abs(sets[name] - sets["accuracy"]).mean() < 60


def test_the_fastest_round_counts(trained):
    clock = itertools.cycle([0, 9, 0, 3, 0, 2, 0, 4, 0, 5, 0, 6])  # the first round compiles
    times = trained.run(clock=clock.__next__, timed=True)["times"]
    assert {one["ms"] for one in times} == {1000 * 2 / module.TIMED_STEPS}


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
    assert len({train.images.tobytes() for train, _ in halves}) > 1


@pytest.mark.parametrize("held_out", [0, 2])
def test_held_out_images_are_not_trained_on(held_out, prepared):
    """They are the last training images, in place of the test images."""
    train, test = module.load(Experiment(**TINY, held_out=held_out), prepared)(None, 0)
    every = noise(6, 0), noise(3, 1)
    tests = every[0].images[-held_out:] if held_out else every[1].images
    np.testing.assert_array_equal(train.images, every[0].images[: 6 - held_out])
    np.testing.assert_array_equal(test.images, tests)
    assert train.labels.tolist() == [0, 1, 2, 0, 1, 2][: 6 - held_out]
    assert test.labels.tolist() == ([1, 2] if held_out else [0, 1, 2])


def test_every_seed_and_size_has_its_images(cells, trained):
    report = trained.run(CELLS, data=module.load(Experiment(**CELLS), cells))
    expected = [(size, seed) for seed in range(3) for size in (16, 8)]
    assert [(size, seed) for size, seed, _ in trained.seen] == expected
    for size, _, images in trained.seen:
        assert (images.shape, images.dtype) == ((120, size, size, 1), "float32")
        assert abs(images.mean()) < 1e-5
    assert [one["metric"] for one in claims(Experiment(**CELLS), report)] == ["roc_auc"]


def test_results_without_later_settings_are_those_of_the_defaults(trained):
    report, settings = trained.run(), Experiment(**TINY).settings("few")
    for one in report["runs"]:
        for name in module.LATER:
            del one["settings"][name]
    assert len(module.matching(report, "runs", settings)) == 3
    assert module.matching(report, "runs", {**settings, "weights": "w.weights.h5"}) == []


@pytest.mark.parametrize("weighted", [False, True])
def test_a_row_of_few_images_trains_on_these_alone(weighted):
    """Others for each seed; they alone count for the weights of the classes."""
    parts, settings = set(), Experiment(**{**TINY, "class_weights": weighted}).settings("few")
    shades = np.arange(24.0, dtype="float32").repeat(64).reshape(24, 8, 8, 1)
    train = Images(shades, np.arange(24) % 3 // 2)  # one in three is of class 1
    for seed in range(3):
        batches = [*module.batches_of(settings, seed, train, 9)]
        seen = np.concatenate([images[:, 0, 0, 0] for images, *_ in batches])
        numbers, often = np.unique(seen, return_counts=True)
        assert often.tolist() == [6] * 6  # of 24 images, 6 are used in 6 passes
        counts = np.bincount(train.labels[numbers.astype(int)], minlength=2)
        parts.add(tuple(numbers))
        for _, classes, *weights in batches:
            expected = [6 / 2 / counts[np.array(classes)]] if weighted else []
            np.testing.assert_allclose(weights, expected)
    assert len(parts) == 3


def test_metrics_of_two_classes():
    logits = np.array([[2, 0], [0, 1], [1, 3], [1, 0], [0, 4]], float)
    model = type("Model", (), {"predict": lambda *_, **__: logits})
    found = module.evaluate(model, {"accuracy": logits}, np.array([0, 0, 1, 1, 1]))
    # One of two defective cells found, with one false alarm; 5 of 6 pairs are in order.
    expected = (60, 50, 100 * 5 / 6)
    assert (found["accuracy"], found["f1"], found["roc_auc"]) == pytest.approx(expected)
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
    assert {row for row, _ in experiment.order()} == experiment.rows.keys()
    networks = {json.dumps(experiment.settings(row)) for row in experiment.rows}
    assert len(networks) == len(experiment.rows)
