"""`python -m zoo.benchmark data`: table and JSON; nothing is said about speed."""

import json

import pytest

from zoo.benchmark import __main__ as command
from zoo.benchmark import data


@pytest.mark.slow
def test_table_and_json(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(data, "RECORDS", 16)
    made = {}
    pipelines = data.pipelines
    monkeypatch.setattr(data, "pipelines", lambda *args: made.update(pipelines(*args)) or made)
    output = tmp_path / "new" / "data.json"
    quick = ["--images", "2", "--size", "16", "--batch", "2", "--repeats", "2"]
    command.main(["data", *quick, "--output", str(output)])
    printed = capsys.readouterr().out
    report = json.loads(output.read_text())
    assert report["command"].startswith("python -m zoo.benchmark data --images 2")
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
        assert len(row["rounds"]) == 2
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

    config = data.DataBenchmarkConfig(images=20, batch=8, repeats=2)
    assert data.measure({"a": Dataset()}, config) == {"a": [16, 16]}  # 3 batches of 8 in 1.5 s


def test_rows_and_cores():
    rows = data.rows({data.OURS: [100, 400, 300], data.RANDAUGMENT: [50, 150, 90]})
    assert [row["images_per_second"] for row in rows] == [300, 90]
    assert [row["ratio"] for row in rows] == [1, 0.3]
    rows += data.rows({data.KERAS: [10]})
    times = data.augmentation_times(rows)
    assert times["ours"] == pytest.approx(1000 / 90 - 1000 / 300)
    assert times["ratio"] == pytest.approx((100 - 1000 / 300) / times["ours"])
    assert data.needed_cores(rows)["cores"] == pytest.approx(1024 / 0.089 / 90)


@pytest.mark.parametrize(
    "arguments", [["--images", "0"], ["--output", "a.txt"], ["--batch", "999"]]
)
def test_wrong_settings_are_one_line(arguments):
    with pytest.raises(ValueError, match=arguments[0][2:]) as caught:
        command.main(["data", *arguments])
    assert "\n" not in str(caught.value)
