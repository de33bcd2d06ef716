"""What errors say."""

import pytest

from zoo.errors import needs_extra, unknown


def test_missing_package_says_what_to_install():
    with (
        pytest.raises(ImportError, match=r"no_such_package.*pip install 'lambda_keras\[train\]'"),
        needs_extra("train"),
    ):
        import no_such_package  # noqa: F401


def test_unknown_names_the_nearest_and_all():
    assert unknown("cta", ["cat", "dog"]) == (
        "Received: 'cta' (did you mean 'cat'?). Allowed: cat, dog"
    )
    assert unknown("zebra", ["cat", "dog"]) == "Received: 'zebra'. Allowed: cat, dog"
