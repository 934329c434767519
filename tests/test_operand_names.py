"""What kernels and entries call weights: by the last parts of the names that they have in the model."""

from __future__ import annotations

import pytest

from lumigen.dtype import f32
from lumigen.index import ix
from lumigen.lower.canonical import weight_names
from lumigen.names import common_parts, counted, short_names
from lumigen.region import Buffer, Role

W0, W1 = (Buffer(f"w{i}", Role.WEIGHT, (ix(4),), f32) for i in range(2))


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["layers.0.attention.query.weight"], "attention.query.weight"),
        (["layers.0.query.weight", "layers.1.query.weight"], "query.weight"),
        (["layers.0.query.weight", "layers.0.key.weight"], "weight"),
        (["embed.scale", "head.bias"], ""),
        ([], ""),
    ],
)
def test_weights_of_layers_have_their_last_parts_in_common(names: list[str], expected: str) -> None:
    assert common_parts(names) == expected


def test_short_names_are_told_apart() -> None:
    names = ["attention.output.dense.weight", "output.dense.weight", "query.weight", "scale"]
    expected = ("attention_output_dense_weight", "output_dense_weight", "query_weight", "scale")
    assert short_names(names) == expected
    assert short_names(["query.weight", "query.weight"]) == ("query_weight", "query_weight_2")
    assert short_names(["0.weight", "a b.ü"]) == ("x_0_weight", "x_a_b")


def test_kernels_that_layers_share_have_what_their_names_share() -> None:
    uses = [
        (new, f"layers.{layer}.attention.{of}.{kind}")
        for layer in (0, 1)
        for of in ("query", "key")
        for new, kind in ((W0, "weight"), (W1, "bias"))
    ]
    assert [b.name for b in weight_names(uses).values()] == ["weight", "bias"]
    own = weight_names([(W0, "layers.0.query.weight"), (W1, "layers.0.query.bias")])
    assert [b.name for b in own.values()] == ["query_weight", "query_bias"]


def test_no_weight_is_called_like_a_word_of_the_headers() -> None:
    uses = [(W0, "pack_a"), (W1, "pack_a")]
    assert [b.name for b in weight_names(uses).values()] == ["pack_a_weight", "pack_a_2_weight"]


def test_names_are_in_the_order_of_their_numbers() -> None:
    names = ["layers.10.keys", "layers.2.values", "layers.2.keys", "x"]
    assert sorted(names, key=counted) == ["layers.2.keys", "layers.2.values", "layers.10.keys", "x"]
