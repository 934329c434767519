"""The workspace of dims that are declared more generously than any memory."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

import numpy as np
import pytest

import lumigen as lg
from lumigen.errors import BadArgument

BAD_SHAPE, NO_MEMORY = 3, 6


def cube(most: int | None) -> lg.Model:
    """A temporary of n * m * k numbers; `most` of each, or dims of a fixed size."""
    n, m, k = (
        lg.Dim(d, 1, most, typical=4 if most < 2**31 else None) if most else fixed
        for d, fixed in zip("nmk", (2**20, 2**20, 2**21), strict=True)
    )
    model = lg.Model("cube", version="1.0")

    @model.entry(x=lg.spec(n, 1, 1), y=lg.spec(m, 1), z=lg.spec(k))
    def spread(x, y, z):
        product = (x * y + z).softmax(-1)
        return {"least": product.softmax(0).sum((1, 2))}

    return model


@pytest.mark.slow
def test_a_workspace_beyond_any_number_is_refused(tmp_path: Path) -> None:
    module = lg.compile(cube(2**22), output=tmp_path, isa="native")
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


@pytest.mark.slow
def test_a_shape_beyond_any_number_is_refused(tmp_path: Path) -> None:
    """An extent that is a product of dims; their maxima have a product, other dims' have none."""
    n, m = lg.Dim("n", 1, 2**40, typical=4), lg.Dim("m", 1, 2**40, typical=4)
    few = lg.Dim("few", 1, 2**20, typical=4)
    model = lg.Model("wide", version="1.0")

    @model.entry(x=lg.spec(n, 1), y=lg.spec(m), z=lg.spec(few))
    def spread(x, y, z):
        return {
            "out": (x + y).flatten() + 1,
            "fair": (x + z).flatten() * 2,
            "pairs": (x + y).reshape(-1, 1).flatten().sum() + z,
        }

    module = lg.compile(model, output=tmp_path, isa="native")
    source = (tmp_path / "src" / "spread.cpp").read_text(encoding="utf-8")
    assert "fair[0] = dims->few * dims->n;" in source, "below 2**60, whatever the dims are"
    library = ctypes.CDLL(str(tmp_path / "lib" / "libwide.so"))
    library.wide_last_error.restype = ctypes.c_char_p
    shapes = [(ctypes.c_int64 * 1)() for _ in range(3)]
    fields = _fields(tmp_path)

    def shape(**dims: int) -> int:
        given = (ctypes.c_int64 * 3)(*(dims[name] for name in fields))
        return library.wide_spread_shape(given, *shapes)

    assert shape(n=3, m=5, few=2) == 0
    assert [s[0] for s in shapes] == [15, 6, 2]
    for big in (2**32, 2**40):  # 2**64 would wrap around to 0, 2**80 too
        assert shape(n=big, m=big, few=2) == BAD_SHAPE
        text = library.wide_last_error().decode()
        assert text == (
            "[spread] axis 0 of out is m*n, which is larger than any number. Pass smaller dims."
        )
    x, y, z = np.zeros((2, 1), np.float32), np.zeros(3, np.float32), np.zeros(1, np.float32)
    assert module.Model().context().spread(x, y, z).out.shape == (6,)


def _fields(project: Path) -> list[str]:
    """The members of the dims struct, in order."""
    header = (project / "include" / "wide.h").read_text(encoding="utf-8")
    (body,) = re.findall(r"typedef struct \{([^}]*)\} wide_spread_dims", header)
    return re.findall(r"int64_t (\w+);", body)


def test_a_fixed_workspace_beyond_any_number_is_refused_while_compiling(tmp_path: Path) -> None:
    """Of fewer elements than a tensor may have, but more bytes than a number counts."""
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
