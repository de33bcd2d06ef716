"""The bucket server, and TensorFlow's client of it in this process."""

import numpy as np
import pytest
import tensorflow as tf

from zoo.files import atomic_write, expand, location, next_version, remove

DATA = np.random.default_rng(0).bytes(300_000)


def operations(server, since: int = 0) -> list[str]:
    return [f"{one.operation} {one.place.partition('/')[2]}" for one in server.requests[since:]]


def test_listing_of_many_pages(bucket, bucket_server, monkeypatch):
    monkeypatch.setattr(bucket_server, "page", 3)
    for number in range(10):
        bucket_server.write(f"{bucket[5:]}/shards/train-{number}", b"x")
    bucket_server.write(f"{bucket[5:]}/shards/train-folder/x", b"x")
    since = len(bucket_server.requests)
    names = [f"{bucket}/shards/train-{number}" for number in range(10)]
    assert expand(f"{bucket}/shards/train-*") == names
    asked = operations(bucket_server, since)
    # Two listings, of four pages each, and no request for each file.
    assert asked.count("list shards/") == 9
    assert len(asked) == 13


def test_upload_that_breaks_off_leaves_the_old_object(bucket, bucket_server):
    location(f"{bucket}/a").write_bytes(b"old")
    during = []
    bucket_server.fail(
        "slow",
        f"upload {bucket[5:]}/a",
        then=lambda: during.append(bucket_server.objects[key].data),
    )
    key = f"{bucket[5:]}/a"
    with atomic_write(location(f"{bucket}/a")) as path:
        path.write_bytes(DATA)
    assert during == [b"old"]
    assert bucket_server.objects[key].data == DATA


def test_damage_a_stale_listing_and_no_permission(bucket, bucket_server):
    location(f"{bucket}/a").write_bytes(DATA)
    bucket_server.fail("damage", f"read {bucket[5:]}/a")
    received = location(f"{bucket}/a").read_bytes()
    assert (received[:-1], received[-1] ^ 1) == (DATA[:-1], DATA[-1])
    bucket_server.fail("stale", f"list {bucket[5:]}/$")
    location(f"{bucket}/b").write_bytes(DATA)
    for expected in (["a"], ["a", "b"]):
        assert [path.name for path in location(bucket).iterdir()] == expected
    bucket_server.fail(403, f"start {bucket[5:]}/c", times=9)
    with (
        pytest.raises(tf.errors.PermissionDeniedError, match=f"to {bucket}/c"),
        atomic_write(location(f"{bucket}/c")) as path,
    ):
        path.write_bytes(DATA)
    assert not location(f"{bucket}/c").exists()


def test_requests_of_a_file(bucket, bucket_server):
    """Writing and removing cost no more than the client's own requests."""
    place, since = location(f"{bucket}/run/a.bin"), len(bucket_server.requests)
    with atomic_write(place) as path:
        path.write_bytes(DATA)
    asked = [one.split()[0] for one in operations(bucket_server, since)]
    assert asked == ["list", "stat", "start", "upload"]
    assert bucket_server.requests[-1].received == len(DATA)
    since = len(bucket_server.requests)
    remove(place)
    assert operations(bucket_server, since) == ["delete run/a.bin"]


def test_versions(bucket, bucket_server):
    """The file by which a SavedModel is found is written last."""
    for number in "12":
        since = len(bucket_server.requests)
        with next_version(location(f"{bucket}/exports/name")) as (folder, beside):
            (beside / "variables").mkdir(parents=True)
            for name in ("saved_model.pb", "model_card.md", "variables/variables.index"):
                (beside / name).write_bytes(b"x")
        assert str(folder) == f"{bucket}/exports/name/{number}"
        written = [one for one in operations(bucket_server, since) if one.startswith("upload")]
        names = ("variables/variables.index", "model_card.md", "saved_model.pb")
        assert written == [f"upload exports/name/{number}/{name}" for name in names]
    third = next_version(location(f"{bucket}/exports/name"))
    folder, beside = third.__enter__()
    beside.mkdir()
    (folder / "other").write_text("x")
    with pytest.raises(ValueError, match="3, written meanwhile"):
        third.__exit__(None, None, None)
