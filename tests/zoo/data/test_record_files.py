"""Order of records of TFRecord files, resumption, and damage."""

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from zoo.data.errors import naming_errors
from zoo.data.record_files import RecordFile, StreamSource
from zoo.data.record_layout import record_ends
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


def parse(record, number, path):
    """The name of a record, of which the content has to be that of its place."""
    place = tf.strings.join([path, " ", tf.strings.as_string(number), " "])
    begins = tf.strings.substr(record, 0, tf.strings.length(place))
    with tf.control_dependencies([tf.debugging.Assert(begins == place, [record])]):
        return {"name": tf.identity(place)}


def names(stream, steps, size, *, first_step=0, host=ONLY_HOST, seed=3) -> list[bytes]:
    groups = stream.training(size, first_step, host, seed)
    return [record["name"].numpy() for record in groups.unbatch().take(steps * host.size(size))]


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """20 files of 1 to 45 records, of which a few are left out, as in a part of a split."""
    counts = np.random.default_rng(0).integers(1, 45, 20)
    files = write(tmp_path_factory.mktemp("files"), counts)
    return StreamSource([*files[:-1], RecordFile(files[-1].path, 2, files[-1].take - 4)], parse, 50)


@pytest.mark.parametrize("host", [ONLY_HOST, Host(1, 2), Host(1, 3)])
def test_resumed_stream_equals_an_undisturbed_one(source, host):
    steps, size = source.count // 6, host.size(6)
    expected = names(source, steps + 20, 6, host=host)
    tf.random.set_seed(7)
    for first_step in (steps // 3, steps - 1, steps + 5):
        got = names(source, steps + 20 - first_step, 6, first_step=first_step, host=host)
        assert got == expected[first_step * size :], first_step
    first = expected[: steps * size]
    assert len({*first}) == steps * size
    assert names(source, 9, 6, first_step=steps, host=host) != first[: 9 * size]
    assert names(source, 9, 6, host=host, seed=4) != first[: 9 * size]


def test_files_are_read_in_rounds_of_four_and_from_the_group_of_a_record_on(tmp_path):
    files = write(tmp_path, [6, 5, 9, 4, 3])
    source = StreamSource(files, parse, 50)
    plain = [one["name"].numpy().decode().split()[1] for one in source.read(ONLY_HOST)]
    rounds = [range(4), range(4), range(4), range(4), (4, 5), (4,), range(4, 8), (8,), range(3)]
    assert plain == [str(number) for one in rounds for number in one]
    seed = tf.constant(5, tf.int64)
    shuffled = [one["name"].numpy() for one in source.read(ONLY_HOST, seed)]
    assert sorted(shuffled) == sorted(one["name"].numpy() for one in source.read(ONLY_HOST))
    for first in (1, 23, 24, 26, 27):
        rest = [one["name"].numpy() for one in source.read(ONLY_HOST, seed, first)]
        assert rest == shuffled[first:]
    for file in files[:4]:
        Path(file.path).unlink()  # which is of the group before
    assert len(list(source.read(ONLY_HOST, None, 24))) == 3


@pytest.mark.parametrize(("hosts", "order"), [(7, None), (16, 5)])
def test_every_host_reads_its_own_part(hosts, order, tmp_path):
    """Of files, and where there are more hosts than files, of their records."""
    source = StreamSource(write(tmp_path, [20, 1, 20, 19]), parse, 50)
    order = None if order is None else tf.constant(order, tf.int64)
    parts = [list(source.read(Host(host, hosts), order)) for host in range(hosts)]
    assert {len(part) for part in parts} == {60 // hosts, -(-60 // hosts)}
    assert len({record["name"].numpy() for part in parts for record in part}) == 60


def test_the_parts_share_the_shuffle_buffer(tmp_path):
    """A buffer of 32 is chunks of two records for each of eight parts; each part is of 10."""
    records = StreamSource(write(tmp_path, [10] * 8), parse, 32).training(8, 0, ONLY_HOST, 0)
    found = [record["name"].numpy().decode().split() for record in records.unbatch().take(80)]
    numbers = np.array([[int(Path(file).name), int(number)] for file, number in found])
    numbers = numbers.reshape(10, 8, 2).transpose(1, 0, 2)  # (part, step, file and number)
    assert (numbers[..., 0] == np.arange(8)[:, None]).all()
    assert (numbers[..., 1] // 2 == np.arange(10) // 2).all()
    assert (numbers[..., 1] != np.arange(10)).any()


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
    with pytest.raises(ValueError, match=message), naming_errors(files):
        list(tf.data.TFRecordDataset(files))
    path.write_bytes(intact)
    Path(files[0]).unlink()
    with pytest.raises(ValueError, match=r"^data: corrupted record at 0$"), naming_errors(files):
        raise tf.errors.DataLossError(None, None, "corrupted record at 0")
