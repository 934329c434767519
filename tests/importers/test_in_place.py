# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
"""Ops that write into a tensor: taken as values where nothing else sees the write, and right in every case."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

import imported
import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree

import lumigen as lg
from lumigen.importers.torch.exported import export
from lumigen.importers.torch.in_place import ANEW, as_values

F = torch.nn.functional
X = torch.linspace(-2, 2, 12).reshape(3, 4)


class Of(nn.Module):
    """A function of one tensor, with layers and a buffer; `input` is a name that a graph of PyTorch renames."""

    def __init__(self, function: Callable[[Any, torch.Tensor], Any]) -> None:
        super().__init__()
        self.function = function
        self.conv = nn.Conv1d(3, 3, 1)
        self.norm = nn.BatchNorm1d(3)
        self.register_buffer("held", torch.arange(12.0).reshape(3, 4))

    def forward(self, input: torch.Tensor) -> Any:
        return self.function(self, input)


def is_alone(module: nn.Module) -> bool:
    """Whether all writes of a module are read as values alone, after its model was compared with PyTorch."""
    module = module.eval()
    program = export(module, (X,), {}, None)
    model = lg.from_torch(program)
    want = imported.arrays(copy.deepcopy(module)(X.clone()))
    got, _ = imported.run(model, (X,), {})
    got = {name: value for name, value in got.items() if not name.startswith("new_")}
    imported.check(got, want)
    return as_values(program)[1]


def block(m: Any, x: torch.Tensor) -> Any:
    """A block of a residual network."""
    y = F.relu(m.norm(m.conv(x[None])), inplace=True)
    y = m.conv(y)
    y += x[None]
    return y.relu_()


def named_twice(_: Any, x: torch.Tensor) -> Any:
    """The old name and that of the write are one tensor."""
    y = x + 1
    z = y.mul_(2)
    y.add_(3)
    z.sub_(0.5)
    return y * 2, z + x, y


def written_in_its_dtype(_: Any, x: torch.Tensor) -> Any:
    """A comparison, and a product with another dtype, keep the dtype of what they write."""
    y = (x * 2).gt_(x)
    z = (x * 1.3).half()
    return y, z.mul_(x), (x * 3).int().bitwise_and_(3)


def broadcast(_: Any, x: torch.Tensor) -> Any:
    """A write of fewer elements than the tensor has."""
    return (x + 1).copy_(x[0]), torch.empty_like(x).fill_(2.5), (x * 2).zero_() + x


def read_before(_: Any, x: torch.Tensor) -> Any:
    """A view that is read only before the write sees the old value; one made afterwards the new one."""
    y = x * 2
    first = y[0].exp()
    y.neg_()
    return first, y.t().sum(0), y.view(4, 3)


def view_alone(_: Any, x: torch.Tensor) -> Any:
    """A view of what is read by no other name."""
    return (x * 2).view(4, 3).relu_() + 1, (x + 1).t().unsqueeze_(0)


def dropped(_: Any, x: torch.Tensor) -> Any:
    """Dropout in evaluation is its argument, which its schema does not say."""
    y = x * 2
    z = F.dropout(y, 0.5, training=False)
    z.mul_(2)
    return y + z, F.dropout(x, training=False)


def in_a_mask(_: Any, x: torch.Tensor) -> Any:
    return x.sigmoid().masked_fill_(x > 0, 7.0).clamp_(max=5), x.clone().index_add_(
        0, torch.tensor([2, 0]), x[:2]
    )


TAKEN = (
    block,
    named_twice,
    written_in_its_dtype,
    broadcast,
    read_before,
    view_alone,
    dropped,
    in_a_mask,
)


@pytest.mark.parametrize("function", TAKEN)
def test_a_write_that_nothing_else_sees_is_a_value(function: Callable[..., Any]) -> None:
    assert is_alone(Of(function))


def base_of_a_view(_: Any, x: torch.Tensor) -> Any:
    y = x * 2
    y[1:].mul_(3)
    return y


def view_of_a_base(_: Any, x: torch.Tensor) -> Any:
    y = x * 2
    row = y[1]
    y.add_(1)
    return row


def two_views(_: Any, x: torch.Tensor) -> Any:
    y = x * 2
    a, b = y.t(), y.view(-1)
    a.neg_()
    return b + 1


def slices(_: Any, x: torch.Tensor) -> Any:
    y = torch.zeros_like(x)
    y[:, 1:] = x[:, :-1]
    y[0] += 1
    y[:, ::2] *= x[:, ::2]
    return y


def parts(_: Any, x: torch.Tensor) -> Any:
    y = x * 2
    a, b = y.chunk(2, 1)
    a.add_(b)
    return y, a


def may_be_a_view(_: Any, x: torch.Tensor) -> Any:
    """Ops that give back their argument, where they have nothing to do."""
    y = x * 2
    z = y.reshape(3, 4).contiguous().float()
    z.add_(1)
    return y


def dropped_view(_: Any, x: torch.Tensor) -> Any:
    y = x * 2
    F.dropout(y[0], 0.5, training=False).mul_(2)
    return y


def turned_by_einsum(_: Any, x: torch.Tensor) -> Any:
    y = x * 2
    torch.einsum("ij->ji", y).mul_(2)
    return y


def an_input(_: Any, x: torch.Tensor) -> Any:
    return x.mul_(2) + 1


def view_of_an_input(_: Any, x: torch.Tensor) -> Any:
    x.view(-1)[2:].zero_()
    return x + 1


def a_buffer(m: Any, x: torch.Tensor) -> Any:
    m.held.add_(x)
    return m.held * 2


def row_of_a_buffer(m: Any, x: torch.Tensor) -> Any:
    row = m.held[1]
    m.held[1].copy_(x[0])
    return row + m.held


SEEN = (
    *(base_of_a_view, view_of_a_base, two_views, slices, parts, may_be_a_view),
    *(dropped_view, turned_by_einsum, an_input, view_of_an_input, a_buffer, row_of_a_buffer),
)


@pytest.mark.slow
@pytest.mark.parametrize("function", SEEN)
def test_a_write_that_another_name_sees_is_left_to_pytorch(function: Callable[..., Any]) -> None:
    assert not is_alone(Of(function))


def test_a_write_in_a_branch_is_left_to_pytorch() -> None:
    cond: Any = torch.cond

    def doubled(t: torch.Tensor) -> torch.Tensor:
        return (t * 2).relu_()

    def sine(t: torch.Tensor) -> torch.Tensor:
        return t.sin().add_(1)

    def branches(_: Any, x: torch.Tensor) -> Any:
        return cond(x.sum() > 0, doubled, sine, (x,))

    assert not is_alone(Of(branches))


@pytest.mark.parametrize(
    ("function", "alone"), [(read_before, True), (dropped, True), (base_of_a_view, False)]
)
def test_arguments_may_be_given_by_name(function: Callable[..., Any], alone: bool) -> None:
    """As a program has them that somebody changed after it was exported."""
    program = export(Of(function).eval(), (X,), {}, None)
    for node in program.graph.nodes:
        schema = getattr(node.target, "_schema", None)
        if schema is not None:
            names = (a.name for a in schema.arguments)
            node.kwargs = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
            node.args = ()
    assert as_values(program)[1] is alone


VIEWS: tuple[Callable[[torch.Tensor], torch.Tensor], ...] = (
    lambda t: t.t(),
    lambda t: t.reshape(-1),
    lambda t: t[:1],
    lambda t: t.contiguous(),
    lambda t: t.unsqueeze(0).squeeze(0),
    lambda t: F.dropout(t, 0.1, training=False),
    lambda t: t.chunk(2)[-1],
)
WRITES: tuple[Callable[[torch.Tensor], torch.Tensor], ...] = (
    lambda t: t.add_(1),
    lambda t: t.mul_(1.5),
    lambda t: F.leaky_relu_(t, 0.5),
    lambda t: t.copy_(t.flatten()[0].clone()),
)
VALUES: tuple[Callable[[torch.Tensor], torch.Tensor], ...] = (
    lambda t: t * 0.5,
    lambda t: t.sum(0),
    lambda t: t.clone(),
)


@pytest.mark.parametrize("seed", range(8))
def test_random_programs_of_views_and_writes(seed: int) -> None:
    """Of all tensors that a program made, of which some are views of others, the last values are its results."""

    def program(_: Any, x: torch.Tensor) -> Any:
        draw = random.Random(seed)
        made = [x * 2]
        for _ in range(draw.randint(3, 9)):
            kind = draw.choice((VIEWS, VALUES, WRITES, WRITES))
            tensors = [t for t in made if t.ndim == 2]
            made.append(draw.choice(kind)(draw.choice(tensors)))
        return tuple(t + 0 for t in draw.sample(made, min(3, len(made))))

    is_alone(Of(program))


I1, I2, I3 = torch.ones(1, 2, 1), torch.ones(1, 2, 1, 1), torch.ones(1, 2, 1, 1, 1)
S = torch.ones(2)
# Arguments with which an op has as little to do as can be: where it gives its argument back, it does so here.
IDLE: dict[str, tuple[Any, ...]] = {
    "adaptive_avg_pool1d": (I1, [1]),
    "adaptive_avg_pool2d": (I2, [1, 1]),
    "adaptive_avg_pool3d": (I3, [1, 1, 1]),
    "adaptive_max_pool1d": (I1, [1]),
    "avg_pool1d": (I1, [1]),
    "batch_norm": (I2, None, None, S, S, False, 0.0, 0.0, False),
    "concat": ([I2],),
    "conv1d": (I1, torch.ones(2, 1, 1), None, [1], [0], [1], 2),
    "conv2d": (I2, torch.ones(2, 1, 1, 1), None, [1, 1], [0, 0], [1, 1], 2),
    "conv3d": (I3, torch.ones(2, 1, 1, 1, 1), None, [1] * 3, [0] * 3, [1] * 3, 2),
    "conv_transpose1d": (I1, torch.ones(2, 2, 1)),
    "conv_transpose2d": (I2, torch.ones(2, 2, 1, 1)),
    "conv_transpose3d": (I3, torch.ones(2, 2, 1, 1, 1)),
    "group_norm": (I2, 1),
    "hstack": ([I2],),
    "instance_norm": (I2, None, None, S, S, False, 0.0, 0.0, False),
    "layer_norm": (I2, [1]),
    "linear": (I2, torch.ones(1, 1)),
    "log_softmax": (I2, 0),
    "matmul": (I2, torch.ones(1, 1)),
    "max_pool1d": (I1, [1]),
    "max_pool2d": (I2, [1, 1]),
    "max_pool3d": (I3, [1, 1, 1]),
    "relu6": (I2,),
    "rms_norm": (I2, [1]),
    "scaled_dot_product_attention": (I2, I2, I2),
    "selu": (I2,),
    "softmax": (I2, 0),
    "std": (I2, [0]),
    "true_divide": (I2, 1),
    "upsample_bicubic2d": (I2, [1, 1], False, None),
    "upsample_bilinear2d": (I2, [1, 1], False, None),
    "upsample_linear1d": (I1, [1], False, None),
    "upsample_nearest1d": (I1, [1], None),
    "upsample_nearest2d": (I2, [1, 1], None),
    "upsample_nearest3d": (I3, [1, 1, 1], None),
    "upsample_trilinear3d": (I3, [1, 1, 1], False, None),
    "var": (I2, [0]),
    "vstack": ([I2],),
    "where": (I2 > 0, I2, I2),
}


def test_what_is_said_to_compute_anew_gives_no_argument_back() -> None:
    assert set(IDLE) == ANEW
    given = {t.untyped_storage().data_ptr() for t in (I1, I2, I3, S)}
    for name, args in IDLE.items():
        results: list[Any] = pytree.tree_leaves(getattr(torch.ops.aten, name)(*args))
        assert given.isdisjoint(r.untyped_storage().data_ptr() for r in results), name
    idle = torch.ops.aten.dropout(I2, 0.5, False)  # one that is not said to
    assert idle.untyped_storage().data_ptr() in given
