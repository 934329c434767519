"""The workspace of dims that are declared more generously than any memory."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest

import lumigen as lg
from lumigen.errors import BadArgument

NO_MEMORY = 6


def cube(most: int | None) -> lg.Model:
    """A temporary of n * m * k numbers; `most` of each, or dims of a fixed size."""
    n, m, k = (
        lg.Dim(d, 1, most, typical=4 if most < 2**31 else None) if most else 2**24 for d in "nmk"
    )
    model = lg.Model("cube", version="1.0")

    @model.entry(x=lg.spec(n, 1, 1), y=lg.spec(m, 1), z=lg.spec(k))
    def spread(x, y, z):
        product = (x * y + z).softmax(-1)
        return {"least": product.softmax(0).sum((1, 2))}

    return model


def test_a_workspace_beyond_any_number_is_refused(tmp_path: Path) -> None:
    module = lg.compile(cube(2**22), output=tmp_path)
    library = ctypes.CDLL(str(tmp_path / "lib" / "libcube.so"))
    library.cube_last_error.restype = ctypes.c_char_p
    model, bytes_ = ctypes.c_void_p(), ctypes.c_size_t()
    assert library.cube_model_open(None, ctypes.byref(model)) == 0

    def workspace(*dims: int) -> int:
        given = (ctypes.c_int64 * 3)(*dims)
        return library.cube_spread_workspace(model, given, ctypes.byref(bytes_))

    assert workspace(4, 4, 4) == 0
    assert 0 < bytes_.value < 10_000
    for dims in ((2**22, 2**22, 2**22), (2**21, 2**20, 2**20)):
        assert workspace(*dims) == NO_MEMORY
        text = library.cube_last_error().decode()
        assert f"n={dims[0]}, m={dims[1]}, k={dims[2]} is larger than any memory" in text
    assert library.cube_spread_workspace(model, None, ctypes.byref(bytes_)) == NO_MEMORY
    library.cube_model_close(model)

    side = 2**22
    x, y, z = (np.zeros(s, np.float32) for s in ((side, 1, 1), (side, 1), (side,)))
    with pytest.raises(module.Error, match="larger than any memory"):
        module.Model().context().spread(x, y, z)


def test_a_fixed_workspace_beyond_any_number_is_refused_while_compiling(tmp_path: Path) -> None:
    with pytest.raises(BadArgument, match="size of a temporary tensor cannot be"):
        lg.compile(cube(None), output=tmp_path, build=False)


@pytest.mark.parametrize("most", [2**31, 2**61])
def test_a_dim_may_be_larger_than_32_bits(tmp_path: Path, most: int) -> None:
    lg.compile(cube(most), output=tmp_path, build=False)


@pytest.mark.parametrize(
    "dim",
    [lg.Dim("n", 1, 6, multiple_of=7), lg.Dim("n", 8, 13, multiple_of=7), lg.Dim("n", 1, 2**62)],
)
def test_a_dim_without_a_value_or_with_too_great_ones_is_refused(dim: lg.Dim) -> None:
    with pytest.raises(BadArgument, match=r"\[Dim\] n cannot be"):
        lg.spec(dim)
