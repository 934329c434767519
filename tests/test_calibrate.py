"""Calibration: what weights are multiplied by, scales that count it, what that gains, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

import lumigen as lg
from lumigen import cli, nn
from lumigen.calibrate import Calibration, calibrated
from lumigen.errors import BadArgument, BadInput, FileRefused
from lumigen.interp.graph import evaluate
from lumigen.multiplied import total, with_squares
from lumigen.quantise import Quantised, encoded, format_of
from lumigen.samples import samples

Array = np.ndarray[Any, Any]
CALLS, ROWS, WIDE = 10, 4, 64
MODEL = """
import numpy as np
import lumigen as lg
from lumigen import nn

up, down = nn.Linear(64, 96), nn.Linear(96, 32, bias=False)
model = lg.Model("gate", {"up": up, "down": down})

@model.entry(x=lg.spec(lg.Dim("rows", 1, 8), 64))
def forward(x):
    return {"y": down(up(x).tanh())}
"""


def gate() -> lg.Traced:
    up, down = nn.Linear(WIDE, 96), nn.Linear(96, 32, bias=False)
    model = lg.Model("gate", {"up": up, "down": down})

    @model.entry(x=lg.spec(lg.Dim("rows", 1, 8), WIDE))
    def forward(x: lg.Tensor) -> dict[str, lg.Tensor]:
        return {"y": down(up(x).tanh())}

    return model.trace()


def floats(model: lg.Traced) -> dict[str, Array]:
    rng = np.random.default_rng(0)
    return {w.name: (rng.standard_normal(w.shape) / 8).astype(np.float32) for w in model.weights}


def uneven(*shape: int) -> Array:
    """Numbers of which some columns are a hundred times as large as others."""
    rng = np.random.default_rng(1)
    sizes = np.exp(1.5 * rng.standard_normal(shape[-1]))
    return (rng.standard_normal(shape) * sizes).astype(np.float32)


def squares_of(function: Callable[..., Any], *specs: Any, net: nn.Module, **given: Array) -> Any:
    """What the weights of a model are multiplied by, and its weights."""
    model = lg.Model("squares", net)
    model.entry(**dict(zip(given, specs, strict=True)))(function)
    traced = model.trace()
    weights = floats(traced)
    graph, found = with_squares(traced.entries[0][1], set(weights))
    return total(found, evaluate(graph, given, weights)), weights


class Pair(nn.Module):
    """A table whose rows are gathered and are the head as well, and a matrix for each group."""

    def __init__(self) -> None:
        self.table = nn.Embedding(12, 8)
        self.groups = nn.Parameter(3, 5, 8)

    def forward(self, ids: lg.Tensor, x: lg.Tensor) -> dict[str, lg.Tensor]:
        rows = self.table(ids)
        scores = rows.tanh() @ self.table.weight.T
        flat = lg.functional.linear(x[:, 0], self.groups.flatten(0, 1))
        return {"scores": scores, "each": x.unsqueeze(2) @ self.groups.mT, "flat": flat}


def test_squares_are_those_of_what_weights_are_multiplied_by() -> None:
    """Of a table only the product counts: what is gathered is multiplied by nothing. Uses of one weight add up."""
    net = Pair()

    def forward(ids: lg.Tensor, x: lg.Tensor) -> dict[str, lg.Tensor]:
        return net(ids, x)

    n = lg.Dim("n", 1, 9)
    ids, x = np.array([3, 11, 3, 0]), uneven(4, 3, 8)
    wide = lg.spec(n, dtype=lg.i64, range=(0, 11)), lg.spec(n, 3, 8)
    found, weights = squares_of(forward, *wide, net=net, ids=ids, x=x)
    rows = np.tanh(weights["table.weight"][ids].astype(np.float64))
    np.testing.assert_allclose(found["table.weight"], (rows**2).sum(0, keepdims=True), rtol=1e-5)
    each = (x.astype(np.float64) ** 2).sum(0)  # (groups, columns)
    meant = np.broadcast_to((each + each[0])[:, None], (3, 5, 8))
    np.testing.assert_allclose(np.broadcast_to(found["groups"], (3, 5, 8)), meant, rtol=1e-5)


def test_squares_of_windows() -> None:
    """An element of a filter is multiplied by the image at its place in each window; those of a group by its part."""
    net = nn.Conv1d(4, 6, 3, padding=1, groups=2)
    x = uneven(2, 4, 7)
    spec = lg.spec(2, 4, 7)

    def forward(x: lg.Tensor) -> lg.Tensor:
        return net(x)

    found, weights = squares_of(forward, spec, net=net, x=x)
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1))) ** 2
    windows = np.stack(
        [padded[..., k : k + 7].sum((0, 2)) for k in range(3)], -1
    )  # (channels, places)
    meant = np.repeat(windows.reshape(2, 1, 2, 3), 3, 1).reshape(6, 2, 3)
    assert weights["weight"].shape == meant.shape
    np.testing.assert_allclose(np.broadcast_to(found["weight"], meant.shape), meant, rtol=1e-5)


def plain_search(x: Array, counts: Array) -> float:
    """The least sum of squares as they count, of one block, over scales by which 4 bits and a sign stand for it."""
    best = np.inf
    for scale in np.abs(x).max() / 8 * np.linspace(-1.3, 1.3, 521):
        if scale:
            apart = np.clip(np.rint(x / scale), -8, 7) * scale - x
            best = min(best, float((counts * apart**2).sum()))
    return best


def test_a_scale_is_searched_by_what_counts() -> None:
    """Near the least of a fine search, block by block, and below what is found where all count alike."""
    rng = np.random.default_rng(2)
    weight = rng.standard_normal((6, WIDE)).astype(np.float32)
    squares = np.square(uneven(1, WIDE)).astype(np.float64)
    form = format_of("q4", WIDE)
    assert form is not None
    counts = np.broadcast_to(squares / squares.mean() + 0.01, weight.shape).reshape(-1, 32)
    found, plain = (
        (
            counts * np.square(encoded("w", weight, form, s)[0].decoded() - weight).reshape(-1, 32)
        ).sum()
        for s in (squares, None)
    )
    least = sum(
        plain_search(b.astype(np.float64), c)
        for b, c in zip(weight.reshape(-1, 32), counts, strict=True)
    )
    assert least <= found * 1.001
    assert found < 1.05 * least
    assert found < 0.8 * plain


@pytest.fixture(scope="module")
def given() -> Mapping[str, Array]:
    return {"x": uneven(CALLS, ROWS, WIDE)}


def apart(traced: lg.Traced, given: Mapping[str, Array], weights: Any, found: Quantised) -> float:
    """How far y of the calls that are held back is from that of floats, by the interpreter."""
    held = given["x"][-CALLS // 5 :].reshape(-1, WIDE)
    exact = evaluate(traced.entries[0][1], {"x": held}, weights)["y"]
    assert found.weights is not None
    read = {w.name: np.asarray(found.weights[w.name]) for w in found.traced.weights}
    got = evaluate(found.traced.entries[0][1], {"x": held}, read)["y"]
    return float(np.linalg.norm(got - exact) / np.linalg.norm(exact))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("form", "keep"),
    [("q4", ()), ("q4a", ()), ("q3-64", ("down",)), ("q8-row", ()), ("q2a-row", ("down",))],
)
def test_outputs_are_nearer_with_calibration(
    form: str, keep: tuple[str, ...], given: Mapping[str, Array]
) -> None:
    """The errors that are said are those of the models, of inputs that did not calibrate."""
    traced = gate()
    weights = floats(traced)
    found, told = calibrated(traced, weights, form, keep, given)
    assert (told.entry, told.calls, told.held, told.unknown) == ("forward", CALLS, CALLS // 5, ())
    assert set(found.packed) == {"up.weight", "down.weight"} - {f"{k}.weight" for k in keep}
    (moved,) = told.outputs
    assert moved.apart == pytest.approx(apart(traced, given, weights, found), rel=1e-2)
    assert moved.apart < moved.without * (1 if form == "q8-row" else 0.97)
    up = next(m for m in told.matrices if m.name == "up.weight")
    assert up.apart < up.without


def told_of(given: Any, weights: Any = None) -> Calibration:
    traced = gate()
    return calibrated(traced, floats(traced) if weights is None else weights, "q4", (), given)[1]


def test_one_call_holds_nothing_back(given: Mapping[str, Array]) -> None:
    told = told_of({"x": given["x"][0]})
    assert (told.calls, told.held) == (1, 0)
    assert "calibrated with a call of forward; none was held back" in told.lines()
    assert any("y of the calibration itself is" in line for line in told.lines())


def test_files_are_what_their_arrays_are(tmp_path: Path, given: Mapping[str, Array]) -> None:
    np.savez(tmp_path / "x.npz", x=given["x"])
    save_file(dict(given), tmp_path / "x.safetensors")
    expected = samples(gate(), given)
    for name in ("x.npz", "x.safetensors"):
        found = samples(gate(), tmp_path / name)
        assert [(c.is_new, c.is_held) for c in found.calls] == [
            (c.is_new, c.is_held) for c in expected.calls
        ]
        for a, b in zip(found.calls, expected.calls, strict=True):
            np.testing.assert_array_equal(a.inputs["x"], b.inputs["x"])


def test_what_is_refused(tmp_path: Path, given: Mapping[str, Array]) -> None:
    x = given["x"]
    bad = x.copy()
    bad[2, 1, 7] = np.nan
    refused: list[tuple[Any, type[Exception], str]] = [
        (
            {},
            BadArgument,
            r"arrays of nothing. Pass all inputs of an entry: forward\(x: f32\[rows, 64\]\)",
        ),
        ({"y": x}, BadArgument, "arrays of y"),
        ({"x": bad}, BadArgument, "x, which has NaN or infinity"),
        ({"x": x[:0]}, BadArgument, "one call or more"),
        ({"x": x[:, :, :60]}, BadInput, r"\[forward\] x is f32\[4, 60\], must be f32\[rows, 64\]"),
        ({"x": uneven(9, WIDE)}, BadInput, "rows is 9; it goes from 1 to 8"),
        ({"x": x.astype(np.float64)}, BadInput, "x is f64"),
        (tmp_path / "none.npz", FileRefused, "there is no such file. Name a file of text"),
        (tmp_path, FileRefused, "no regular file"),
        (tmp_path / "a.txt", BadArgument, r"a text: .* inputs of forward\(x: f32\[rows, 64\]\)"),
    ]
    (tmp_path / "a.txt").write_text("a b c")
    for what, error, text in refused:
        with pytest.raises(error, match=text):
            samples(gate(), what)
    weights = floats(gate())
    with pytest.raises(BadArgument, match=r"up\.weight is multiplied by what is not finite"):
        told_of({"x": np.full((2, 1, WIDE), 1e30, np.float32)})
    with pytest.raises(BadArgument, match="weights-dtype"):
        calibrated(gate(), weights, None, (), given)
    with pytest.raises(BadArgument, match="without weights"):
        calibrated(gate(), None, "q4", (), given)


def test_the_command_says_what_calibration_gains(
    tmp_path: Path, given: Mapping[str, Array], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    save_file(floats(gate()), tmp_path / "w.safetensors")
    np.savez(tmp_path / "x.npz", x=given["x"])
    inputs = [tmp_path / "model.py", "--weights", tmp_path / "w.safetensors", "--no-build"]
    asked = ["--weights-dtype", "q4", "--calibrate", tmp_path / "x.npz", "--errors"]
    arguments = ["compile", *inputs, *asked, "-o", tmp_path / "out"]
    assert cli.run([str(a) for a in arguments]) == 0
    said = capsys.readouterr().err
    assert "note: calibrated with 8 calls of forward; 2 more were held back" in said
    assert "from that of floats by norm" in said
    assert "products with up.weight, " in said
    assert cli.run([str(a) for a in ["compile", *inputs, *asked[2:]]]) == 1
    assert "calibrate cannot be given alone" in capsys.readouterr().err


def test_a_project_has_the_weights_that_were_calibrated(
    tmp_path: Path, given: Mapping[str, Array]
) -> None:
    """As many bytes as without, and others."""
    weights = floats(gate())
    files: list[bytes] = []
    for name, calibrate in (("plain", None), ("counted", given)):
        asked: dict[str, Any] = {"weights_dtype": "q4", "calibrate": calibrate, "build": False}
        lg.compile(gate(), output=tmp_path / name, weights=weights, **asked)
        files.append((tmp_path / name / "weights" / "gate.safetensors").read_bytes())
    assert len(files[0]) == len(files[1])
    assert files[0] != files[1]
