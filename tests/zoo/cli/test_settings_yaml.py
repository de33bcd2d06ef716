"""YAML that is measured before it is built."""

import pytest

from zoo.cli.settings import load_yaml


def test_plain_types():
    text = "a: {b: [1, 2.5, true, null, text]}\nc: 'd'\n"
    assert load_yaml(text) == {"a": {"b": [1, 2.5, True, None, "text"]}, "c": "d"}
    assert load_yaml("7") == 7


@pytest.mark.parametrize(("depth", "fits"), [(10, True), (11, False)])
def test_depth(depth, fits):
    text = "[" * depth + "]" * depth
    if fits:
        assert repr(load_yaml(text)) == text
    else:
        with pytest.raises(ValueError, match=r"at most 10 levels of YAML\. Received: more"):
            load_yaml(text)


def test_length():
    assert load_yaml(" " * 2**14) is None
    with pytest.raises(ValueError, match=r"at most 16384 characters of YAML\. Received: 16385"):
        load_yaml(" " * (2**14 + 1))


def test_aliases():
    with pytest.raises(ValueError, match=r"without aliases\. Received: \*a in line 2"):
        load_yaml("a: &a 1\nb: *a")
