"""The dtype policy of Keras."""

import pytest

from zoo.precision import resolve_precision


@pytest.mark.parametrize(
    ("policy", "kind", "flags", "chosen"),
    [
        ("auto", "CPU", "fpu avx512f avx512_bf16", "mixed_bfloat16"),
        ("auto", None, "fpu amx_bf16", "mixed_bfloat16"),
        ("auto", "CPU", "fpu avx512f avx512_vnni", "float32"),
        ("auto", "GPU", "fpu avx512_bf16", "float32"),
        ("auto", "TPU", "fpu", "mixed_bfloat16"),
        ("float32", "TPU", "fpu", "float32"),
        (None, "TPU", "fpu", None),
    ],
)
def test_automatic_precision(policy, kind, flags, chosen, tmp_path, capsys):
    text = f"processor\t: 0\nmodel name\t: A CPU\nflags\t\t: {flags}\nbugs\t\t: avx512_bf16\n"
    (tmp_path / "cpuinfo").write_text(text)
    assert resolve_precision(policy, kind, tmp_path / "cpuinfo") == chosen
    has = flags.split()[-1] if "bf16" in flags and kind != "GPU" else None
    expected = ", ".join(filter(None, ("auto", kind or "CPU", has)))
    printed = f"precision: {chosen} ({expected})\n" if policy == "auto" else ""
    assert capsys.readouterr().out == printed


@pytest.mark.usefixtures("on_jax")
def test_automatic_precision_on_jax_is_float32(tmp_path):
    (tmp_path / "cpuinfo").write_text("flags : avx512_bf16")
    assert resolve_precision("auto", "CPU", tmp_path / "cpuinfo") == "float32"
