"""The table of formats."""

import inspect
import sys

import pytest

from zoo.export.classification import ExportConfig
from zoo.export.formats import FORMATS, LAMBDA_MAPS, check_packages


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_has_all_that_others_use(name):
    form = FORMATS[name]
    assert all((form.TITLE, form.PURPOSE, form.USE.format(name="x")))
    assert form.SIGNATURES[0] == "serving_default"
    assert set(form.SIGNATURES) <= {*FORMATS["saved_model"].SIGNATURES, LAMBDA_MAPS}
    assert next(iter(form.WAYS.items())) == (form.TITLE, {})
    assert callable(form.write)
    assert form.OPTIONS.keys() <= inspect.signature(form.write).parameters.keys()
    assert form.OPTIONS.keys() <= ExportConfig.model_fields.keys()
    assert callable(form.Runtime.run)


@pytest.mark.parametrize(
    ("name", "package"),
    [("onnx", "tf2onnx"), ("openvino", "openvino"), ("litert", "ai_edge_litert.interpreter")],
)
def test_a_missing_package_says_what_to_install(monkeypatch, name, package):
    check_packages(name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf"{package}.*pip install 'SOURCE\[export\]'"):
        check_packages(name)
