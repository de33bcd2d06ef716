"""Bad settings, files, run folders and places for output, as training and its neighbours get them.

Each ends the command with one line that says what came, and writes nothing.
"""

import json
from pathlib import Path

import pytest
from PIL import Image
from support.commands import fail, present
from support.lfs import LFS_POINTER, PULL

from zoo import run_folder
from zoo.cli.main import Verb
from zoo.config import TrainConfig
from zoo.inference.source import run as source

LONG = "x" * 5000

COMMAND_LINES = [
    ("positional", "digits", "Received: 'digits'"),
    ("section without a setting", "--model", "--model.SETTING VALUE. Received: --model alone"),
    ("tiny images", "--model.image_size 7", "Received: '7'"),
    ("huge images", "--model.image_size 4096", "Received: '4096'"),
    ("no epochs", "--training.epochs 0", "Received: '0'"),
    ("epochs in words", "--training.epochs many", "training.epochs: Input should be a valid int"),
    ("negative seed", "--training.seed=-1", "Received: '-1'"),
    ("seed of 33 bits", "--training.seed 4294967296", "Received: '4294967296'"),
    ("infinite rate", "--optimizer.learning_rate inf", "finite number. Received: 'inf'"),
    ("rate of 0", "--optimizer.learning_rate 0", "Received: '0'"),
    ("momentum of 1", "--optimizer.momentum 1", "Received: '1'"),
    ("averages without end", "--training.ema 1", "Received: '1'"),
    ("all of the label smoothed", "--training.label_smoothing 1", "Received: '1'"),
    ("neither choice nor None", "--data.class_weights null", "'null'. Allowed: balanced, None"),
    ("TPU of another strategy", "--strategy one_device --tpu a", "Received: 'a'"),
    ("unknown model", "--model.name resnet51", "Received: 'resnet51' (did you mean 'resnet50'?)"),
    ("nothing to hold out", "--data.test_fraction 0", "Received: '0'"),
    ("nothing to train on", "--data.test_fraction 1", "Received: '1'"),
    ("batch without images", "--data.batch_size 0", "data.batch_size: Input should be greater"),
    ("misspelt setting", "--data.bath_size 9", "'--data.batch_size'?). Allowed: --data.source"),
    ("misspelt source", "--data.source digts", "data.source: no such source. Received: 'digts'"),
    ("folder of another source", "--data.dir x", "or source=tfds or source=tfrecord only"),
    (
        "source without its folder",
        "--data.source image_folder",
        "a folder of images. Received: ",
    ),
    ("name of another source", "--data.name imagenet2012", "Received: name=imagenet2012"),
    ("source without its name", "--data.source tfds", "Received: name=None"),
    (
        "augmentation without augmentation",
        "--data.augment false --data.randaugment_magnitude 5",
        "augment=false",
    ),
    ("mixing without augmentation", "--data.augment false --data.mixup 1", "mixup needs augment"),
    ("shifts without augmentation", "--data.augment false --data.shift 0.1", "shift needs augment"),
    ("too far a shift", "--data.shift 0.6", "Received: '0.6'"),
    ("mixing of one image", "--data.batch_size 1 --data.cutmix 1", "Received: batch_size=1"),
    ("erasing more than all", "--data.random_erasing 1.5", "Received: '1.5'"),
    ("jitter of nothing", "--data.color_jitter 0", "Received: '0'"),
    (
        "weights of classes that are not counted",
        "--data.source tfds --data.name a --data.class_weights balanced",
        "class_weights is for source=digits or source=image_folder only",
    ),
    ("momentum of Adam", "--optimizer.name adamw --optimizer.momentum 0.5", "momentum is for name"),
    ("decay of a cosine", "--optimizer.decay_rate 0.5", "decay_rate is for schedule=exponential o"),
    (
        "epochs of no decay",
        "--optimizer.decay_epochs 5",
        "decay_epochs is for schedule=exponential",
    ),
    ("no RandAugment", "--data.randaugment_layers 4", "randaugment_layers needs randaugment_magn"),
    ("Nesterov's momentum of Adam", "--optimizer.name adamw --optimizer.nesterov true", "nesterov"),
    ("mean of squares of SGD", "--optimizer.beta_2 0.9", "name=adamw or name=lamb or name=lion"),
    ("clipping to nothing", "--optimizer.global_clipnorm 0", "Received: '0'"),
    ("rates that rise", "--optimizer.layer_decay 1.1", "Received: '1.1'"),
    ("parts of nothing", "--training.gradient_accumulation_steps 0", "Received: '0'"),
    ("threshold of probabilities", "--training.binary_threshold 0.2", "loss=binary_crossentropy"),
    ("callback without its module", "--training.callbacks Logger", "package.module:Name"),
    ("frozen twice", "--model.freeze_backbone true --model.freeze_up_to c2", "freeze_up_to=c2"),
    ("unknown stage", "--model.freeze_up_to c6", "Received: 'c6'"),
    ("teacher without weights", "--distillation.model resnet50", "weights=None"),
    ("weights of no teacher", "--distillation.weights w.weights.h5", "model=None"),
    (
        "two teachers",
        "--distillation.run run --distillation.model resnet50 --distillation.weights w.weights.h5",
        "expected run or model",
    ),
    ("temperature of no teacher", "--distillation.temperature 4", "temperature needs a teacher"),
    ("teacher that is lukewarm", "--distillation.temperature 1e30", "less than or equal to 1000"),
    ("warm-up to the end", "--training.epochs 5", "fewer than training.epochs (5). Received: 5.0"),
    ("classes of the data", "--model.overrides classes=3", "Received: classes"),
    ("no classifier", "--model.overrides include_top=false", "Received: include_top"),
    (
        "momentum twice",
        "--model.overrides batch_norm_momentum=0.5",
        "Received: batch_norm_momentum",
    ),
    ("override of broken YAML", "--model.overrides scope=[", "for scope. Received: '['"),
    ("override with an alias", "--model.overrides scope=*a", "Received: '*a'"),
    ("weights that are not there", "--model.weights no.weights.h5", "Received: 'no.weights.h5'"),
    ("settings that are not there", "--config no.yaml", "'no.yaml', not found"),
    ("settings from a device", "--config /dev/zero", "'/dev/zero', not a file"),
    ("settings from the web", "--config http://a/b.yaml", "Received: 'http://a/b.yaml'"),
    ("output without a name", "--output_dir=", "output_dir: expected a path. Received: ''"),
    ("output on the web", "--output_dir http://a/b", "Received: 'http://a/b'"),
    ("output in a file", "--output_dir file", "Received: 'file'"),
    ("output where none may write", "--output_dir /proc/run", "Received: '/proc/run'"),
    ("output below a loop of links", "--output_dir loop/run", "symbolic links"),
    ("output where a link leads nowhere", "--output_dir dangling", "Received: 'dangling'"),
    ("output among other files", "--output_dir folder", "folder holds other files"),
]


FILES = [
    ("number as a key", "1: 2", "expected `key: value` lines"),
    ("number as a key of a section", "data: {1: 2}", "data.1: Keys should be strings. Received: 1"),
    ("nothing", "", "expected `key: value` lines"),
    ("two documents", "a: 1\n--- \nb: 2", "another document"),
    ("list", "- 1", "expected `key: value` lines"),
    ("pointer of Git LFS", LFS_POINTER, PULL),
    ("half a list", "a: [", "not YAML"),
    ("bytes", b"\xff\xfe\x00", "not YAML"),
    ("null character", b"a: \x00", "special characters"),
    ("code", "data: !!python/object/apply:os.system [ls]", "python/object/apply:os.system"),
    (
        "bomb of aliases",
        "a: &a [x]\n" + "\n".join(f"{n}: &a{n} [{'*a, ' * 9}]" for n in range(9)),
        "without aliases. Received: *a in line 2",
    ),
    ("3000 levels of lists", "a: " + "[" * 3000, "nested levels"),
    ("megabytes", "a: 1\n" * 1_000_000, "at most 16384 characters"),
    ("misspelt setting", "data: {bath_size: 9}", "(did you mean 'batch_size'?). Allowed: source, "),
    ("misspelt section", "dta: {}", "did you mean 'data'"),
    ("dotted setting", "model.name: resnet50", "Received: 'model.name'"),
    ("setting of the library", "_env_file: /etc/passwd", "Received: '_env_file'"),
    ("number for a section", "data: 5", "Received: 5"),
    ("number for the output", "output_dir: 5", "output_dir: expected a path. Received: 5"),
    ("null character in the output", 'output_dir: "a\\0b"', "Received: 'a\\x00b'"),
]


def settings_of_a_run() -> str:
    return TrainConfig().to_yaml()


# Contents of the folder `run`, which training is to resume.
RUNS = [
    ("other files", {"notes.txt": ""}, "run holds other files"),
    ("finished", {"config.yaml": "{}", "metrics.json": "{}"}, "run holds a finished run"),
    ("of other settings", {"config.yaml": "data: {batch_size: 8}"}, "(data.batch_size)"),
    ("settings in a folder", {"config.yaml/a": ""}, "run holds other files"),
    ("checkpoints in a file", {"config.yaml": "{}", "checkpoints": ""}, "'run/checkpoints'"),
]

INTACT = {
    "class_names": ["a", "b"],
    "test": {"accuracy": 0.5},
    "test_images": 2,
    "training_images": 8,
}
METRICS = [
    ("empty", "", "EOF"),
    ("cut", json.dumps(INTACT)[:40], "EOF"),
    ("nothing in it", "{}", "class_names: Field required"),
    ("text for a number", json.dumps(INTACT | {"test_images": "2"}), "test_images"),
    ("no test images", json.dumps(INTACT | {"test_images": 0}), "metrics.json (test_images: Input"),
    ("more than all right", json.dumps(INTACT | {"test": {"accuracy": 1.5}}), "or equal to 1"),
    ("not a number", json.dumps(INTACT | {"test": {"accuracy": float("nan")}}), "finite number"),
    ("classes missing", json.dumps(INTACT), "expected 3 class_names"),
]

SOURCE = "--model lambda_resnet26t --weights w.weights.h5"
# Each sort of place where nothing can be written.
OUTPUTS = [
    (f"evaluate {SOURCE} --output file/a", "Received: 'file/a"),
    (f"export {SOURCE} --output /proc/a/b", "Received: '/proc/a/b"),
    (f"predict photo.png {SOURCE} --output {LONG}.json", "File name too long"),
    ("benchmark layer --output dangling/a.json", "Received: 'dangling/a"),
    (f"convert {SOURCE} --output file/a.weights.h5", "Received: 'file/a"),
]


@pytest.fixture(autouse=True)
def place(here):
    """The current folder of every command."""
    Path("folder").mkdir()
    Path("folder/thesis.tex").touch()
    Path("file").touch()
    Path("w.weights.h5").touch()
    Path("loop").symlink_to("loop")
    Path("dangling").symlink_to("nowhere")
    Image.new("RGB", (8, 8)).save("photo.png")
    return here


@pytest.fixture
def refused(place, capsys):
    """Runs a command that has to refuse its arguments and write nothing."""

    def check(verb: str, arguments: list[str], part: str) -> None:
        before = {path: path.lstat() for path in place.rglob("*") if path.is_file()}
        names = sorted(place.rglob("*"))
        line = fail(Verb(verb), capsys, *arguments)
        assert part in line
        assert sorted(place.rglob("*")) == names
        assert {p: p.lstat().st_mtime_ns for p in before} == {
            path: stat.st_mtime_ns for path, stat in before.items()
        }

    return check


def rows(table):
    return pytest.mark.parametrize(
        [f"value{i}" for i in range(len(table[0]) - 1)],
        [pytest.param(*row[1:], id=row[0]) for row in table],
    )


@rows(COMMAND_LINES)
def test_command_line(refused, value0, value1):
    refused("train", value0.split(" "), value1)


@rows(FILES)
def test_file_of_settings(refused, place, value0, value1):
    (place / "c.yaml").write_bytes(value0 if isinstance(value0, bytes) else value0.encode())
    refused("train", ["--config", "c.yaml"], value1)


@rows(RUNS)
def test_run_that_cannot_go_on(refused, place, value0, value1):
    for name, text in value0.items():
        (place / "run" / name).parent.mkdir(parents=True, exist_ok=True)
        (place / "run" / name).write_text(text)
    refused("train", ["--output_dir", "run"], value1)


@rows(METRICS)
def test_finished_run_with_damaged_metrics(refused, place, monkeypatch, value0, value1):
    monkeypatch.setattr(source, "_load_model", lambda _: Model())
    run = place / "run"
    run.mkdir()
    (run / run_folder.CONFIG).write_text(settings_of_a_run())
    (run / run_folder.METRICS).write_bytes(value0 if isinstance(value0, bytes) else value0.encode())
    refused("evaluate", ["--run", "run"], value1)


class Model:
    output_shape = (None, 3)


@pytest.mark.parametrize(
    ("verb", "name", "part"),
    [
        ("evaluate", LONG, "File name too long"),
        ("evaluate", "nowhere", "Received: 'nowhere'"),
        ("export", "http://a/b", "Received: 'http://a/b'"),
        ("export", "", "Received: ''"),
    ],
)
def test_run_that_is_none(refused, verb, name, part):
    refused(verb, [f"--run={name}"], part)


@pytest.mark.parametrize(("line", "part"), present(OUTPUTS))
def test_output(refused, line, part):
    verb, *arguments = line.split()
    refused(verb, arguments, part)
