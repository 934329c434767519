"""What every module can do: names of parts, containers, checkpoints that fit or do not."""

from __future__ import annotations

import copy
import operator
from collections import OrderedDict
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import lumigen as lg
from lumigen import errors, nn


def net() -> nn.Module:
    return nn.Sequential(
        nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Sequential(nn.ReLU(), nn.Linear(4, 2))
    )


def theirs() -> torch.nn.Module:
    inner = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(4, 2))
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), inner)


def test_names_are_pytorchs() -> None:
    ours, other = net(), theirs()
    assert [n for n, _ in ours.named_modules()] == [n for n, _ in other.named_modules()]
    assert [n for n, _ in ours.named_children()] == [n for n, _ in other.named_children()]
    assert [n for n, _ in ours.named_parameters()] == [n for n, _ in other.named_parameters()]
    counted = {n for n, _ in other.named_buffers()} - {"1.num_batches_tracked"}
    assert {n for n, _ in ours.named_buffers()} == counted
    assert len(list(ours.parameters())) == len(list(other.parameters()))
    assert len(list(ours.buffers())) == 2
    assert next(iter(ours.modules())) is ours
    assert ours.get_submodule("2.1") is ours[2][1]
    assert ours.get_submodule("") is ours
    with pytest.raises(AttributeError, match=r"no module 2\.5"):
        ours.get_submodule("2.5")
    assert next(n for n, _ in ours.named_parameters("x.")) == "x.0.weight"


def test_shared_modules_are_named_once() -> None:
    layer = nn.Linear(2, 2)
    shared = nn.ModuleList([layer, layer])
    assert [n for n, _ in shared.named_modules()] == ["", "0"]
    assert len(list(shared.parameters())) == 2


def test_apply_goes_from_the_inside_out() -> None:
    seen: list[str] = []
    net().apply(lambda m: seen.append(type(m).__name__))
    assert seen == ["Linear", "BatchNorm1d", "ReLU", "Linear", "Sequential", "Sequential"]


def test_parts_by_any_name() -> None:
    module = nn.Module()
    module.register_parameter("w.0", nn.Parameter(2))
    module.add_module("inner", nn.Linear(2, 2))
    module.register_buffer("b", nn.Buffer(3))
    module.register_parameter("none", None)
    assert list(module.state_dict()) == ["w.0", "inner.weight", "inner.bias", "b"]
    assert repr(module.b) == "Buffer(f32[3])"


def test_copies_are_their_own() -> None:
    first = nn.Linear(2, 3)
    shared = nn.ModuleList([first, first])
    second = copy.deepcopy(shared)
    assert second[0] is second[1]
    assert second[0] is not first
    assert not set(map(id, second.parameters())) & set(map(id, shared.parameters()))
    assert tuple(second[0].weight.shape) == (3, 2)
    assert second[0].weight.extents == first.weight.extents


def test_the_dtype_of_all() -> None:
    module = net().to(lg.f16)
    assert {p.dtype for p in module.state_dict().values()} == {lg.f16}


# --- containers -----------------------------------------------------------------------------------


def test_lists() -> None:
    a, b, c = (nn.Linear(1, n) for n in (1, 2, 3))
    many = nn.ModuleList([a]).append(b).extend([c])
    assert list(many) == [a, b, c]
    assert list(many[1:]) == [b, c]
    assert isinstance(many[1:], nn.ModuleList)
    many.insert(0, c)
    many[1] = b
    assert list(many) == [c, b, b, c]
    assert many.pop(0) is c
    assert many.pop(-1) is c
    assert list(operator.add(many, [a])) == [b, b, a]
    many += [a]
    del many[0]
    assert list(many) == [b, a]
    assert len(many) == 2
    weights = nn.ParameterList([nn.Parameter(2), nn.Parameter(3)])
    assert list(weights.state_dict()) == ["0", "1"]
    assert tuple(weights[1].shape) == (3,)


def test_dicts() -> None:
    a, b = nn.Linear(1, 1), nn.Linear(1, 2)
    named = nn.ModuleDict({"a": a})
    named["b"] = b
    named.update([("c", a)])
    assert list(named.keys()) == ["a", "b", "c"]
    assert list(named.values()) == [a, b, a]
    assert dict(named.items())["b"] is b
    assert "b" in named
    assert named.pop("b") is b
    del named["c"]
    assert list(named) == ["a"]
    assert list(named.state_dict()) == ["a.weight", "a.bias"]
    named.clear()
    assert len(named) == 0
    assert list(nn.ParameterDict({"w": nn.Parameter(2)}).state_dict()) == ["w"]
    assert list(nn.ModuleDict([("x", a)])) == ["x"]


def test_sequences() -> None:
    a, b, c = nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 3)
    named = nn.Sequential(OrderedDict([("first", a), ("then", b)]))
    assert list(named.state_dict()) == ["first.weight", "first.bias"]
    assert named.first is a
    with pytest.raises(AttributeError, match="Sequential has no other"):
        _ = named.other
    row = nn.Sequential(a, b).append(c)
    assert list(row[1:]) == [b, c]
    assert row[-1] is c
    row[1] = a
    del row[0]
    assert list(row.state_dict()) == ["0.weight", "0.bias", "1.weight", "1.bias"]
    assert len(row.extend([b])) == 3
    assert list(copy.deepcopy(named).state_dict()) == list(named.state_dict())


# --- checkpoints ----------------------------------------------------------------------------------


def test_a_checkpoint_of_pytorch_loads_strictly() -> None:
    ours, other = net(), theirs()
    found = ours.load_state_dict(other.state_dict())  # with 1.num_batches_tracked
    assert found == ([], [])
    for name, p in ours.state_dict().items():
        np.testing.assert_array_equal(p.value, other.state_dict()[name].numpy())


def test_counters_may_be_missing() -> None:
    state = {k: v.numpy() for k, v in theirs().state_dict().items() if v.ndim}
    assert net().load_state_dict(state) == ([], [])


def test_all_that_does_not_fit_is_told_at_once() -> None:
    ours = net()
    state = {k: v.numpy() for k, v in theirs().state_dict().items()}
    state["0.weight"] = state["0.weight"].T
    state["1.running_mean"] = state["1.running_mean"].astype(np.int64)
    del state["2.1.bias"]
    state["3.weight"] = np.zeros(2, np.float32)
    with pytest.raises(errors.StateMismatch) as caught:
        ours.load_state_dict(state)
    for part in (
        "does not fit Sequential; missing: 2.1.bias; unexpected: 3.weight;",
        "0.weight is f32[3, 4], must be f32[4, 3], 1.running_mean is i64[4], must be f32[4]",
    ):
        assert part in str(caught.value)
    assert all(p.value is None for p in ours.state_dict().values())  # nothing is taken
    with pytest.raises(
        errors.StateMismatch, match="missing: none; unexpected: none; of another"
    ) as caught:
        ours.load_state_dict(state, strict=False)
    assert str(caught.value).endswith("Pass the state_dict of this module.")
    with pytest.raises(errors.StateMismatch, match="or strict=False to leave out names"):
        ours.load_state_dict({})


def test_names_may_differ_if_asked_for() -> None:
    ours = net()
    state = {"0.weight": np.ones((4, 3), np.float32), "other": np.ones(1)}
    found = ours.load_state_dict(state, strict=False)
    assert found.unexpected_keys == ["other"]
    assert "0.bias" in found.missing_keys
    assert ours[0].weight.value is not None
    assert ours[0].bias.value is None


def test_floats_are_converted_as_declared() -> None:
    half = {"weight": np.ones((2, 3), np.float16), "bias": np.ones(2, np.float64)}
    ours = nn.Linear(3, 2)
    ours.load_state_dict(half)
    assert {p.value.dtype for p in ours.parameters()} == {np.dtype(np.float32)}
    ours.load_state_dict(half, assign=True)
    assert (ours.weight.dtype, ours.bias.dtype) == (lg.f16, lg.f64)
    assert ours.to(lg.bf16).weight.value.dtype == ml_dtypes.bfloat16


def test_tensors_of_torch_of_any_kind() -> None:
    other = torch.nn.Linear(3, 2).to(torch.bfloat16)
    ours = nn.Linear(3, 2, dtype=lg.bf16)
    ours.load_state_dict(dict(other.named_parameters()))  # which need gradients
    bits = other.weight.detach().view(torch.int16).numpy()
    np.testing.assert_array_equal(ours.weight.value.view(np.int16), bits)


def test_files_load_as_they_are(tmp_path: Path) -> None:
    other = theirs()
    save_file(other.state_dict(), tmp_path / "w.safetensors")
    torch.save(other.state_dict(), tmp_path / "w.pt")
    for file in ("w.safetensors", "w.pt"):
        ours = net()
        ours.load_state_dict(lg.open_weights(tmp_path / file))
        np.testing.assert_array_equal(ours[0].weight.value, other[0].weight.detach().numpy())


def test_values_are_what_a_model_compiles_with(tmp_path: Path) -> None:
    ours, other = nn.Linear(3, 2), torch.nn.Linear(3, 2)
    model = lg.Model("m", ours, prefix="head.")

    @model.entry(x=lg.spec(1, 3))
    def f(x: Any) -> Any:
        return ours(x)

    assert model.values() == {}
    ours.load_state_dict(other.state_dict())
    assert set(model.values()) == {"head.weight", "head.bias"}
    lg.compile(model, output=tmp_path / "m", build=False)
    written = lg.open_weights(tmp_path / "m" / "weights" / "m.safetensors")
    np.testing.assert_array_equal(written["head.bias"], other.bias.detach().numpy())


def test_parameters_of_arrays_have_their_values() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            self.scale = nn.Parameter(torch.full((3,), 2.0))
            self.register_buffer("shift", np.arange(3, dtype=np.float64))
            self.register_parameter("none", None)

        def forward(self, x: Any) -> Any:
            return x * self.scale + self.shift.float()

    module = Scaled()
    assert {n: repr(p) for n, p in module.state_dict().items()} == {
        "scale": "Parameter(f32[3])",
        "shift": "Buffer(f64[3])",
    }
    assert [n for n, _ in module.named_buffers()] == ["shift"]
    model = lg.Model("scaled", module)
    values = model.values()
    np.testing.assert_array_equal(values["scale"], np.full(3, 2.0, np.float32))
    np.testing.assert_array_equal(values["shift"], np.arange(3.0))
    assert nn.Parameter(np.ones((2, 3)), dtype=lg.f32).value.dtype == np.float32
    with pytest.raises(
        errors.BadArgument, match=r"\[Parameter\] dtype cannot be dtype\('complex64'\)"
    ):
        nn.Parameter(np.ones(3, np.complex64))
    with pytest.raises(errors.BadArgument, match="Pass positive integers, or an array alone"):
        nn.Parameter(np.ones((0, 3)))
    told = r"a tensor of shape \(6, 2\), .* Pass its shape, Parameter\(6, 2\), or numbers: an array"
    with pytest.raises(errors.BadArgument, match=told):
        nn.Parameter(lg.zeros(6, 2))
    assert nn.Parameter(torch.tensor(2.5)).shape == ()


def test_dtypes_of_a_whole_module() -> None:
    for name, dtype in (
        ("half", lg.f16),
        ("bfloat16", lg.bf16),
        ("double", lg.f64),
        ("float", lg.f32),
    ):
        module = getattr(net(), name)()
        assert {p.dtype for p in module.parameters()} == {dtype}


def test_a_number_that_a_parameter_cannot_hold_is_refused() -> None:
    ours = nn.Linear(2, 2)
    state = {"weight": np.full((2, 2), 1e300), "bias": np.array([np.inf, np.nan])}
    with pytest.raises(
        errors.StateMismatch, match=r"weight has 1e\+300, above the greatest of f32"
    ):
        ours.load_state_dict(state)
    ours.load_state_dict({**state, "weight": np.ones((2, 2))})


class Rotary(nn.Module):
    def __init__(self) -> None:
        self.scale = nn.Linear(3, 3, bias=False)
        self.register_buffer("angles", np.arange(3, dtype=np.float32), persistent=False)
        self.register_buffer("mean", np.ones(3, np.float32))

    def forward(self, x):
        return self.scale(x) * self.angles + self.mean


class Theirs(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Linear(3, 3, bias=False)
        self.register_buffer("angles", torch.arange(3.0), persistent=False)
        self.register_buffer("mean", torch.ones(3))


def test_buffers_that_are_not_persistent_are_in_no_state_dict() -> None:
    ours, theirs = Rotary(), Theirs()
    assert set(ours.state_dict()) == set(theirs.state_dict()) == {"scale.weight", "mean"}
    assert {n for n, _ in ours.named_buffers()} == {n for n, _ in theirs.named_buffers()}
    assert not ours.load_state_dict(theirs.state_dict()).missing_keys
    assert "angles" not in copy.deepcopy(ours).state_dict()
    assert ours.half().angles.dtype is lg.f16
    computed = lg.arange(3)
    ours.register_buffer("computed", computed, persistent=False)
    assert ours.computed is computed
    assert "computed" not in ours.state_dict()
    with pytest.raises(errors.StateMismatch, match="unexpected: angles"):
        ours.load_state_dict({**theirs.state_dict(), "angles": np.ones(3)})


@pytest.mark.parametrize("given", ["none", "file", "arrays"])
def test_buffers_that_are_not_persistent_need_no_file(tmp_path: Path, given: str) -> None:
    net = Rotary()
    model = lg.Model("rotary", net)

    @model.entry(x=lg.spec(2, 3))
    def turn(x):
        return net(x)

    held = {"scale.weight": np.eye(3, dtype=np.float32), "mean": np.zeros(3, np.float32)}
    save_file({k: torch.tensor(v) for k, v in held.items()}, tmp_path / "w.safetensors")
    if given == "none":
        net.load_state_dict(held)
    weights = {"none": None, "file": tmp_path / "w.safetensors", "arrays": held}[given]
    lg.compile(model, output=tmp_path / "out", weights=weights, build=False)
    packed = lg.open_weights(tmp_path / "out" / "weights" / "rotary.safetensors")
    np.testing.assert_array_equal(packed["angles"], np.arange(3, dtype=np.float32))
    assert "mean" in packed


def test_a_parameter_with_a_value_needs_none_of_the_file(tmp_path: Path) -> None:
    net = nn.Linear(2, 2, bias=False)
    net.shift = nn.Parameter(np.stack([np.float32(3), np.float32(4)]))
    model = lg.Model("shifted", net)
    save_file({"weight": torch.eye(2)}, tmp_path / "w.safetensors")
    found = model.sources(lg.open_weights(tmp_path / "w.safetensors"))
    assert found is not None
    np.testing.assert_array_equal(found["shift"], [3, 4])
    both = {"weight": np.eye(2, dtype=np.float32), "shift": np.zeros(2, np.float32)}
    given = model.sources(both)
    assert given is not None
    np.testing.assert_array_equal(given["shift"], [0, 0])


@pytest.mark.parametrize("name", ["a\0b", "a\ud800b"])
def test_a_name_that_no_file_can_hold(name: str) -> None:
    weight = nn.Parameter(3, name=name)
    model = lg.Model("named")

    @model.entry(x=lg.spec(3))
    def scaled(x):
        return x * weight

    with pytest.raises(errors.BadArgument, match=r"\[Parameter\] the name cannot be 'a\\"):
        model.trace()
