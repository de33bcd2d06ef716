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
    expected = {
        "data": {"requests": 3, "reads": 3, "objects_read": 2, "read_bytes": 123},
        "checkpoints": {"requests": 3, "uploads": 1, "lists": 1, "written_bytes": 50},
        "TensorBoard": {"written_bytes": 7},
        "others": {"requests": 1},
    }
    assert list(rows) == list(expected)
    for part, values in expected.items():
        assert rows[part].items() >= values.items()
