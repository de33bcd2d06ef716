"""Runners, with a stand-in for Apache Beam that runs a pipeline in this process."""

from types import ModuleType, SimpleNamespace

import pytest
from support.pseudo_labels import JOB

from zoo.pseudo_label.inputs import find_ranges
from zoo.pseudo_label.job import Job, Task, finished
from zoo.pseudo_label.runners import beam_runner, label_each, run_each
from zoo.pseudo_label.teacher import load_teacher


class Pipeline:
    def __init__(self, runner, options):
        self.given, self.items, self.function = (runner, options), [], None

    def __or__(self, step):
        step(self)
        return self

    def run(self):
        for item in self.items:
            self.function(item)
        return SimpleNamespace(wait_until_finish=lambda: None)


class PipelineOptions(dict):
    from_dictionary = classmethod(lambda of, options: of(options))

    def get_all_options(self):
        return {"a": 1} if "other" in self else {"direct_num_workers": 1, "project": None, **self}


@pytest.fixture
def beam(modules):
    """Modules of the names that are imported."""
    steps = {
        "Create": lambda items: lambda pipeline: pipeline.items.extend(items),
        "Reshuffle": lambda: lambda pipeline: None,
        "Map": lambda function: lambda pipeline: setattr(pipeline, "function", function),
    }
    for place, values in {
        "": {"Pipeline": Pipeline, **steps},
        ".options": {},
        ".options.pipeline_options": {"PipelineOptions": PipelineOptions},
        ".runners": {},
        ".runners.portability": {},
        ".runners.portability.fn_api_runner": {"FnApiRunner": SimpleNamespace},
    }.items():
        module = ModuleType(f"apache_beam{place}")
        vars(module).update(values)
        modules(**{module.__name__: module})


@pytest.mark.usefixtures("beam")
def test_runner_of_a_name():
    assert beam_runner("local", {}) is None
    for name in ("Flink", "Spark", "Dataflow"):
        assert beam_runner(name.lower(), {"project": "a"}) == (f"{name}Runner", {"project": "a"})
    assert isinstance(beam_runner("direct", {})[0], SimpleNamespace)
    with pytest.raises(ValueError, match=r"beam: no such option. Received: 'other'.*Allowed: a$"):
        beam_runner("direct", {"other": 3})


TRACEBACK = 'Traceback\n  File "a.py"\nValueError: the first\nzoo.files.{} [while running x]\nmore'


@pytest.mark.usefixtures("beam")
@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (RuntimeError(TRACEBACK.format("FullDiskError: full")), ValueError, "^full$"),
        (RuntimeError(TRACEBACK.format("OtherError: a")), ValueError, "^the first$"),
        (RuntimeError("no such worker"), RuntimeError, "no such worker"),
        (ValueError("input: damaged [while running y]"), ValueError, "^input: damaged$"),
        (KeyError("a"), KeyError, "a"),
    ],
)
def test_bad_input_of_a_worker_is_one_line(error, kind, message):
    def function(item):
        raise error

    with pytest.raises(kind, match=message):
        run_each(function, [1], (None, None))


@pytest.mark.usefixtures("beam")
@pytest.mark.parametrize("range_size", [0, 4])
def test_images_of_other_processes_are_counted(teacher, shards, tmp_path, range_size):
    """Those of unknown number by the index; unfinished ranges not at all."""
    ranges, counted = find_ranges(f"{shards}/*", range_size, None, False), []
    job = Job(teacher=load_teacher(teacher).id, class_names=tuple("0123456789"), **JOB)
    task = Task(job, teacher, str(tmp_path / "labels"), len(ranges), False)
    (tmp_path / "labels").mkdir()
    numbered = list(enumerate(ranges))
    label_each(task, numbered[:-1], ("a", {}), counted.append, 1e9)
    assert sum(counted) == (14 if range_size == 0 else 18)
    assert finished(tmp_path / "labels", len(ranges)) == set(range(len(ranges) - 1))
    label_each(task, numbered[-1:], None, counted.append)
    assert sum(counted) == 21
