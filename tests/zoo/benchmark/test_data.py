"""`python -m zoo.benchmark data`: table and JSON; nothing is said about speed."""

import json

import pytest

from zoo.benchmark import __main__ as command
from zoo.benchmark import data
from zoo.benchmark.timing import Timing


@pytest.mark.very_slow
def test_table_and_json(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(data, "RECORDS", 16)
    made = {}
    pipelines = data.pipelines
    monkeypatch.setattr(data, "pipelines", lambda *args: made.update(pipelines(*args)) or made)
    output = tmp_path / "new" / "data.json"
    quick = ["--images", "2", "--size", "16", "--batch", "2", "--repeats", "2"]
    command.main(["data", *quick, "--output", str(output)])
    printed = capsys.readouterr().out
    assert "ownload" not in printed
    report = json.loads(output.read_text())
    assert {"tensorflow", "tensorflow-datasets", "tf-models-official"} <= set(report["versions"])
    names = [row["pipeline"] for row in report["rows"]]
    assert names == [data.OURS, data.RANDAUGMENT, data.PLAIN, data.KERAS]
    assert set(names) <= set(report["conventions"])
    for dataset in made.values():
        assert dataset.options().threading.private_threadpool_size == 1
        images, labels = dataset.element_spec
        assert (images.shape[1:], labels.shape[1:]) == ((16, 16, 3), (2,))
        assert images.dtype == labels.dtype == "float32"
    for row in report["rows"]:
        assert row["pipeline"] in printed
        assert row["images_per_second"] == pytest.approx(sum(row["rounds"]) / 2)
    assert report["tpu_v3_8"]["images_per_second"] == pytest.approx(11_505.6, abs=0.1)
    assert f"{report['tpu_v3_8']['cores']:.1f} such cores" in printed


def test_starting_a_pipeline_is_not_counted(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(data.time, "process_time", lambda: now[0])

    def batches():
        for seconds in (5.0, 0.5, 0.5, 0.5, 9.0):
            now[0] += seconds
            yield None

    class Dataset:
        __iter__ = staticmethod(batches)

    run = data.cpu_time(Dataset(), batches=3)()
    assert run(1) == run(1) == [1.5]


def test_rows_and_cores():
    def timing(*seconds):
        return Timing(0, list(seconds), 1, [])

    timings = {data.OURS: timing(1, 1 / 4, 1 / 3), data.RANDAUGMENT: timing(2, 2 / 3, 10 / 9)}
    rows, times, tpu = data.summary({**timings, data.KERAS: timing(10)}, images=100)
    assert [row["images_per_second"] for row in rows] == pytest.approx([300, 90, 10])
    assert [row["ratio"] for row in rows] == pytest.approx([1, 0.3, 1 / 30])
    assert times["ours"] == pytest.approx(1000 / 90 - 1000 / 300)
    assert times["ratio"] == pytest.approx((100 - 1000 / 300) / times["ours"])
    assert tpu["cores"] == pytest.approx(1024 / 0.089 / 90)
