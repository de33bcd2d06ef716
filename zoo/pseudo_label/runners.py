"""Runners: the same function over all ranges, in this process or by Apache Beam."""

import re
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from zoo.backend import BACKENDS, use_default_backend
from zoo.errors import check_known, needs_extra, require
from zoo.fields import LARGEST
from zoo.files import location

if TYPE_CHECKING:
    from zoo.pseudo_label.inputs import Range
    from zoo.pseudo_label.job import Task

LOCAL, DIRECT = "local", "direct"
BEAM = {"dataflow": "DataflowRunner", "flink": "FlinkRunner", "spark": "SparkRunner"}
Runner = Literal["local", "direct", "dataflow", "flink", "spark"]
# Last traceback line of the errors that commands report in one line.
_BAD_INPUT = r"^(?:[\w.]*\.)?(?:ValueError|OSError|FullDiskError): (.*)$"
POLL_S = 2.0  # between two looks for finished files

Numbered = tuple[int, "Range"]
BeamRunner = tuple[Any, Any]  # runner and its options


def beam_runner(name: str, options: Mapping[str, Any]) -> BeamRunner | None:
    """Returns a Beam runner by name, and its options after a check; None for local."""
    if name == LOCAL:
        require(not options, "beam: expected none with --runner local", dict(options))
        return None
    with needs_extra("pseudo"):
        from apache_beam.options.pipeline_options import PipelineOptions  # pyright: ignore
        from apache_beam.runners.portability.fn_api_runner import FnApiRunner  # pyright: ignore
    chosen = PipelineOptions.from_dictionary(dict(options))
    known = sorted(chosen.get_all_options())
    for option in options:
        check_known(option, known, "beam: no such option")
    # "DirectRunner" would download and start a binary, Prism.
    return FnApiRunner() if name == DIRECT else BEAM[name], chosen


def run_each(
    function: Callable[[Any], Any], items: Collection[Any], beam: BeamRunner | None
) -> None:
    """Calls a function with every item, in this process or on workers of Apache Beam.

    Bad input that a worker finds is raised as a `ValueError` of one line.
    """
    if beam is None:
        for item in items:
            function(item)
        return
    import apache_beam  # pyright: ignore[reportMissingImports]

    pipeline = apache_beam.Pipeline(*beam)
    _ = (
        pipeline
        | apache_beam.Create(list(items))
        | apache_beam.Reshuffle()
        | apache_beam.Map(function)
    )
    try:
        pipeline.run().wait_until_finish()
    except (ValueError, RuntimeError) as error:
        line = str(error)
        if isinstance(error, RuntimeError):  # the text of a worker's traceback
            messages = re.findall(_BAD_INPUT, line, re.MULTILINE)
            if not messages:
                raise
            line = messages[-1]
        raise ValueError(line.partition(" [while running")[0]) from error


def label_each(
    task: "Task",
    ranges: Sequence[Numbered],
    beam: BeamRunner | None,
    advance: Callable[[int], None],
    poll_s: float = POLL_S,
) -> None:
    """Labels ranges, and counts their images."""
    if beam is None:
        run_each(partial(label, task, advance=advance), ranges, None)
        return
    with counting(task, ranges, advance, poll_s):
        run_each(partial(label, task), ranges, beam)


def label(
    task: "Task", numbered: Numbered, advance: Callable[[int], None] = lambda count: None
) -> None:
    """Labels one range, possibly in a new process, where Keras has no backend yet."""
    use_default_backend(BACKENDS[:1])
    from zoo.pseudo_label.worker import label_range

    label_range(task, *numbered, advance)


@contextmanager
def counting(
    task: "Task", ranges: Sequence[Numbered], advance: Callable[[int], None], poll_s: float
) -> Iterator[None]:
    """Counts images of ranges that other processes finish during the `with` block."""
    from zoo.pseudo_label.job import INDEX, finished, read_index

    waiting = dict(ranges)
    stop = threading.Event()

    def look() -> None:
        for number in finished(location(task.output), task.count) & waiting.keys():
            count = waiting.pop(number).take
            if count < 0:
                count = len(read_index(task.path(number, INDEX), LARGEST)["label"])
            advance(count)

    def watch() -> None:
        while not stop.wait(poll_s):
            look()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        look()
