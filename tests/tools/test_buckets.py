"""Counts of the requests of an epoch, by hand."""

from support.buckets import Request

from tools.buckets import cost


def test_cost():
    end = Request("upload", "bucket/run/epochs.jsonl", received=9)
    before = [Request("read", "bucket/data/train-00", sent=5), end]
    epoch = [
        Request("read", "bucket/data/train-00", sent=100),
        Request("read", "bucket/data/train-01", sent=20),
        Request("read", "bucket/data/train-00", sent=3),
        Request("start", "bucket/run/checkpoints/step-1"),
        Request("upload", "bucket/run/checkpoints/step-1", received=50),
        Request("list", "bucket/run/checkpoints/"),
        Request("upload", "bucket/run/logs/train/events", received=7),
        end,
    ]
    rows = {row["part"]: row for row in cost([*before, *epoch, before[0]])}
    assert list(rows) == ["data", "checkpoints", "TensorBoard", "others"]
    data, checkpoints = rows["data"], rows["checkpoints"]
    assert data["requests"] == data["reads"] == 3
    assert (data["objects_read"], data["read_bytes"]) == (2, 123)
    assert (checkpoints["requests"], checkpoints["uploads"], checkpoints["lists"]) == (3, 1, 1)
    assert checkpoints["written_bytes"] == 50
    assert rows["TensorBoard"]["written_bytes"] == 7
    assert rows["others"]["requests"] == 1
