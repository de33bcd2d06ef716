"""Order of TFRecord files, and resumption at a position in them."""

from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from zoo.data.errors import naming_errors
from zoo.data.record_files import RecordFile, reader
from zoo.data.record_layout import record_ends
from zoo.data.sources.base import StreamSource
from zoo.devices import ONLY_HOST, Host


def write(folder: Path, counts, length: int = 8) -> list[RecordFile]:
    """Files with records of about `length` bytes, which begin with their own name."""
    files = []
    for i, count in enumerate(counts):
        path = folder / str(i)
        with tf.io.TFRecordWriter(str(path)) as writer:
            for j in range(count):
                writer.write(f"{path} {j} ".encode().ljust(length + j % 7, b"x"))
        files.append(RecordFile(str(path), 0, int(count)))
    return files


def source(files, shuffle_buffer=50) -> StreamSource:
    def parse(record, number, path):
        place = tf.strings.join([path, " ", tf.strings.as_string(number), " "])
        begins = tf.strings.substr(record, 0, tf.strings.length(place))
        right = tf.debugging.Assert(begins == place, [record])
        with tf.control_dependencies([right]):
            return {"name": tf.identity(place)}

    parse = reader(files, parse)
    return StreamSource(sum(file.take for file in files), parse, shuffle_buffer)


def names(stream, steps, size, *, first_step=0, host=ONLY_HOST, seed=3) -> list[tuple[bytes, int]]:
    records: Any = stream.training(size, first_step, host, seed).as_numpy_iterator()
    size = host.size(size)
    return [(record["name"], int(n)) for record, n in islice(records, steps * size)]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """20 files of 1 to 45 records, of which a few are left out, as in a part of a split."""
    counts = np.random.default_rng(0).integers(1, 45, 20)
    files = write(tmp_path_factory.mktemp("files"), counts)
    return [*files[:-1], RecordFile(files[-1].path, 2, files[-1].take - 4)]


@pytest.mark.parametrize("host", [ONLY_HOST, Host(1, 2), Host(1, 3)])
def test_resumed_stream_equals_an_undisturbed_one(files, host):
    stream = source(files)
    steps = stream.count // 6
    expected = names(stream, 2 * steps, 6, host=host)
    size = host.size(6)
    for first_step in (1, steps // 3, steps - 1, steps, steps + 50):
        got = names(stream, 2 * steps - first_step, 6, first_step=first_step, host=host)
        assert got == expected[first_step * size :], first_step
    epochs = expected[: steps * size], expected[steps * size :]
    assert all(len({name for name, _ in epoch}) == steps * size for epoch in epochs)
    assert [name for name, _ in epochs[0]] != [name for name, _ in epochs[1]]
    assert names(stream, steps, 6, host=host, seed=4) != epochs[0]


def test_global_seed_changes_nothing(files):
    stream = source(files)
    tf.random.set_seed(1)
    expected = names(stream, 60, 6), names(stream, 9, 6, first_step=30)
    tf.random.set_seed(2)
    assert (names(stream, 60, 6), names(stream, 9, 6, first_step=30)) == expected


def test_reader_starts_at_any_record(files):
    seed = tf.constant(5, tf.int64)
    plain = [one["name"].numpy() for one in source(files).read(ONLY_HOST, seed, 0)]
    assert plain != [one["name"].numpy() for one in source(files).read(ONLY_HOST, None, 0)]
    for first in (1, 100, 255, 256, len(plain) - 1):
        rest = [one["name"].numpy() for one in source(files).read(ONLY_HOST, seed, first)]
        assert rest == plain[first:]


def bytes_read() -> int:
    (line,) = (each for each in Path("/proc/self/io").read_text().splitlines() if "rchar" in each)
    return int(line.split()[1])


def test_resumed_stream_reads_from_its_position_on(tmp_path):
    files = write(tmp_path, [100] * 32, 20_000)
    stream = source(files, shuffle_buffer=64)
    whole = sum(Path(file.path).stat().st_size for file in files)
    before = bytes_read()
    names(stream, 2, 8, first_step=stream.count // 8 // 2 + 60)
    # One chunk that is used, one that is read ahead, a round, and buffers of files.
    assert bytes_read() - before < whole / 3


@pytest.mark.parametrize(("damage", "why"), [("cut", "cut off"), ("text", ""), ("gone", "")])
def test_file_that_changed_is_named(tmp_path, damage, why):
    (file,) = files = write(tmp_path, [100])
    path = Path(file.path)
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:900] if damage == "cut" else b"a,b,c\n" * 99)
    with pytest.raises(ValueError, match=rf"^data\.dir: .* records or more in .*/0\. .*{why}") as e:
        names(source(files, 8), 1, 8, first_step=10)
    assert "\n" not in str(e.value)


@pytest.mark.parametrize("record", [0, 3])
@pytest.mark.parametrize("damage", ["length", "content", "cut off"])
def test_damaged_record_is_named(tmp_path, record, damage):
    files = [file.path for file in write(tmp_path, [5, 5, 5], length=100)]
    path = Path(files[1])
    intact = path.read_bytes()
    content = bytearray(intact)
    start = [0, *record_ends(files[1])][record]
    if damage == "cut off":
        del content[start + 50 :]
    else:
        content[start + (0 if damage == "length" else 50)] ^= 1
    path.write_bytes(content)
    message = rf"^data: record {record} of {path} is damaged or cut off$"
    records = tf.data.TFRecordDataset(files)
    with pytest.raises(ValueError, match=message), naming_errors(files):
        list(records)
    path.write_bytes(intact)
    Path(files[0]).unlink()
    with pytest.raises(ValueError, match=r"^data: corrupted record at 0$"), naming_errors(files):
        raise tf.errors.DataLossError(None, None, "corrupted record at 0")
