"""trees: ensembles of decision trees (domain ai.onnx.ml) as tables of nodes, through which all trees step at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from lumigen.dtype import boolean, f32
from lumigen.frontend import Tensor, functions
from lumigen.importers.onnx.node import OnnxNode, Operator
from lumigen.importers.onnx.operators.classical import (
    DOMAIN,
    in_two,
    labelled,
    table,
    transformed,
)
from lumigen.importers.onnx.values import Array

MOST = 2**26  # elements of the table of leaves
COMPARED: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "BRANCH_LEQ": lambda x, v: x <= v,
    "BRANCH_LT": lambda x, v: x < v,
    "BRANCH_GTE": lambda x, v: x >= v,
    "BRANCH_GT": lambda x, v: x > v,
    "BRANCH_EQ": lambda x, v: x == v,
    "BRANCH_NEQ": lambda x, v: x != v,
}
MODES = (*COMPARED, "BRANCH_MEMBER")  # by their numbers in TreeEnsemble
AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


@dataclass(frozen=True)
class Trees:
    """Nodes of all trees in a row. A leaf leads to itself; `weights` (nodes, targets) are what leaves give."""

    modes: Sequence[str]
    features: Array
    values: Array
    missing: Array  # whether NaN goes the way of true
    yes: Array
    no: Array
    roots: Array
    weights: Array

    def depth(self, n: OnnxNode) -> int:
        """Steps from a root to the last leaf."""
        at, steps = np.unique(self.roots), 0
        while True:
            following = np.unique(np.concatenate([self.yes[at], self.no[at]]))
            if (self.yes[at] == at).all() and (self.no[at] == at).all():
                return steps
            at, steps = following, steps + 1
            if steps > len(self.yes):
                raise n.unsupported("its nodes lead in a circle", "Export the model again.")


def leaves_of(n: OnnxNode, trees: Trees, x: Tensor) -> Tensor:
    """(rows, trees): the leaf that each row comes to in each tree."""
    tables = {
        name: table(n, array, name)
        for name, array in (
            ("features", trees.features),
            ("values", trees.values),
            ("missing", trees.missing),
            ("yes", trees.yes),
            ("no", trees.no),
        )
    }
    modes = sorted(set(trees.modes) - {"LEAF"})
    kinds = np.array([modes.index(m) if m in modes else 0 for m in trees.modes])
    at = table(n, trees.roots, "roots").unsqueeze(0).expand(x.shape[0], len(trees.roots))
    for _ in range(trees.depth(n)):
        found = x.gather(1, tables["features"][at])
        values = tables["values"][at].to(x.dtype)
        goes: Any = functions.zeros(*at.shape, dtype=boolean)
        for i, mode in enumerate(modes):
            holds = COMPARED[mode](found, values)
            goes = (
                holds if len(modes) == 1 else goes | ((table(n, kinds, "kinds")[at] == i) & holds)
            )
        if trees.missing.any() or "BRANCH_NEQ" in modes:
            goes = functions.where(found.isnan(), tables["missing"][at], goes)
        at = functions.where(goes, tables["yes"][at], tables["no"][at]).contiguous()
    return at


def scores(n: OnnxNode, trees: Trees, x: Tensor, aggregate: str) -> Tensor:
    """(rows, targets): what the leaves give, together."""
    given = table(n, trees.weights, "weights")[leaves_of(n, trees, x)]  # (rows, trees, targets)
    if aggregate in ("MIN", "MAX"):
        return given.amin(1) if aggregate == "MIN" else given.amax(1)
    total = given.sum(1)
    return total / len(trees.roots) if aggregate == "AVERAGE" else total


def numbers(n: OnnxNode, name: str, default: Any = ()) -> Array:
    """Floats of an attribute, or of the one with a tensor in its place."""
    found = n.attr(f"{name}_as_tensor", None)
    return np.asarray(n.attr(name, default) if found is None else found)


def _kind(x: Tensor) -> Any:
    return np.float64 if x.dtype.itemsize == 8 and x.dtype.is_float else np.float32


def _filling(aggregate: str, kind: Any) -> float:
    """What a leaf gives to the targets that it does not name."""
    return {"MIN": np.finfo(kind).max, "MAX": np.finfo(kind).min}.get(aggregate, 0.0)


def _spread(
    n: OnnxNode,
    rows: Array,
    targets: Array,
    weights: Array,
    shape: tuple[int, int],
    aggregate: str,
    kind: Any,
) -> Array:
    """The table of leaves."""
    if shape[0] * shape[1] > MOST:
        raise n.unsupported(f"its leaves make a table of {shape}", "Split the ensemble.")
    out = np.full(shape, _filling(aggregate, kind), kind)
    join = {"MIN": np.minimum, "MAX": np.maximum}.get(aggregate, np.add)
    join.at(out, (rows, targets), weights.astype(kind))
    return out


# --- nodes with numbers, from version 1 on ----------------------------------------------------------


def _listed(n: OnnxNode, what: str, count: int, aggregate: str, kind: Any) -> Trees:
    """Trees as lists of nodes, each with the number of its tree and its own; `what` has weights: class or target."""
    ids = list(zip(n.attr("nodes_treeids"), n.attr("nodes_nodeids"), strict=True))
    place = {pair: i for i, pair in enumerate(ids)}
    modes = [m if isinstance(m, str) else m.decode() for m in n.attr("nodes_modes")]
    ways: dict[str, Array] = {}
    for name in ("true", "false"):
        given = n.attr(f"nodes_{name}nodeids")
        ways[name] = np.array(
            [
                i if mode == "LEAF" else place[tree, to]
                for i, ((tree, _), mode, to) in enumerate(zip(ids, modes, given, strict=True))
            ]
        )
    first: dict[int, int] = {}
    for i, (tree, _) in enumerate(ids):
        first.setdefault(tree, i)
    pairs = zip(n.attr(f"{what}_treeids"), n.attr(f"{what}_nodeids"), strict=True)
    rows = np.array([place[pair] for pair in pairs], np.int64)
    targets = np.array(n.attr(f"{what}_ids"), np.int64)
    weights = _spread(
        n, rows, targets, numbers(n, f"{what}_weights"), (len(ids), count), aggregate, kind
    )
    missing = n.attr("nodes_missing_value_tracks_true", None) or [0] * len(ids)
    return Trees(
        modes,
        np.array(n.attr("nodes_featureids"), np.int64),
        numbers(n, "nodes_values"),
        np.array(missing, np.int64).astype(bool),
        ways["true"],
        ways["false"],
        np.array([first[tree] for tree in sorted(first)]),
        weights,
    )


def _given(n: OnnxNode) -> Tensor:
    x = n.tensor(0)
    x = x if x.dtype.is_float else x.to(f32)
    return x.unsqueeze(0) if x.ndim == 1 else x


def _based(n: OnnxNode, total: Tensor) -> Tensor:
    base = numbers(n, "base_values")
    return total + table(n, base.astype(np.float32), "base_values") if base.size else total


def regressor(n: OnnxNode) -> Tensor:
    x, aggregate = _given(n), str(n.attr("aggregate_function", "SUM"))
    if aggregate not in AGGREGATES:
        raise n.unsupported(f"its aggregate_function is {aggregate!r}", "Export it with SUM.")
    trees = _listed(n, "target", int(n.attr("n_targets")), aggregate, _kind(x))
    total = _based(n, scores(n, trees, x, aggregate))
    return transformed(n, total.to(f32), str(n.attr("post_transform", "NONE")))


def classifier(n: OnnxNode) -> tuple[Tensor, Tensor]:
    """Labels, and scores of classes. Weights of one class alone are those of the second of two."""
    x = _given(n)
    count = len(n.attr("classlabels_int64s", None) or n.attr("classlabels_strings", None) or [])
    ids = set(n.attr("class_ids"))
    trees = _listed(n, "class", max(count, max(ids) + 1), "SUM", _kind(x))
    total = scores(n, trees, x, "SUM").to(f32)
    way = str(n.attr("post_transform", "NONE"))
    if len(ids) == 1 and count <= 2:
        base = numbers(n, "base_values")
        one = total.narrow(1, next(iter(ids)), 1)
        one = one + float(base.reshape(-1)[-1]) if base.size else one
        total = in_two(one, way, all_positive=bool((trees.weights >= 0).all()))
    else:
        total = _based(n, total)
    found = transformed(n, total, way)
    return labelled(n, total, "classlabels_int64s"), found


# --- leaves of their own, from version 5 on ---------------------------------------------------------


def ensemble(n: OnnxNode) -> Tensor:
    x = _given(n)
    aggregate = AGGREGATES[int(n.attr("aggregate_function", 1))]
    count, leaves = int(n.attr("n_targets")), len(n.attr("leaf_targetids"))
    modes = [MODES[int(m)] for m in np.asarray(n.attr("nodes_modes")).reshape(-1)]
    splits, features = np.asarray(n.attr("nodes_splits")), list(n.attr("nodes_featureids"))
    inner = len(modes)
    missing = list(n.attr("nodes_missing_value_tracks_true", None) or [0] * inner)

    def ways(name: str) -> list[int]:
        ends = zip(n.attr(f"nodes_{name}nodeids"), n.attr(f"nodes_{name}leafs"), strict=True)
        return [int(to) + (inner if is_leaf else 0) for to, is_leaf in ends]

    yes, no, values = ways("true"), ways("false"), [float(v) for v in splits]
    if any(not 0 <= to < inner + leaves for to in (*yes, *no)):
        raise n.unsupported("a node leads to none", "Export the model again.")
    more = _members(n, modes, values, yes, no)
    features += [features[i] for i in more]
    missing += [missing[i] for i in more]
    # members stand after the leaves
    order = [*range(inner), *range(inner + leaves, inner + leaves + len(more))]
    total = inner + leaves + len(more)
    itself = np.arange(total)
    columns = {"features": features, "values": values, "missing": missing, "yes": yes, "no": no}
    full = {name: itself.copy() if name in ("yes", "no") else np.zeros(total) for name in columns}
    for name, column in columns.items():
        full[name][order] = column
    every = np.full(total, "LEAF", object)
    every[order] = modes
    targets = np.array(n.attr("leaf_targetids"), np.int64)
    weights = np.asarray(n.attr("leaf_weights"))
    at = inner + np.arange(leaves)
    spread = _spread(n, at, targets, weights, (total, count), aggregate, _kind(x))
    roots = np.array(n.attr("tree_roots"), np.int64)
    trees = Trees(
        list(every),
        full["features"].astype(np.int64),
        full["values"].astype(splits.dtype),
        full["missing"].astype(bool),
        full["yes"].astype(np.int64),
        full["no"].astype(np.int64),
        roots,
        spread,
    )
    found = scores(n, trees, x, aggregate)
    return transformed(n, found, TRANSFORMS[int(n.attr("post_transform", 0))])


def _members(
    n: OnnxNode, modes: list[str], values: list[float], yes: list[int], no: list[int]
) -> list[int]:
    """Nodes that ask for members of a set become one for each member; gives what the added ones stand for."""
    given = np.asarray(n.attr("membership_values", np.zeros(0)))
    ends = [-1, *np.flatnonzero(np.isnan(given)).tolist()]
    sets = [given[a + 1 : b].tolist() for a, b in pairwise(ends)]
    asking = [i for i, mode in enumerate(modes) if mode == "BRANCH_MEMBER"]
    if len(sets) != len(asking) or not all(sets):
        raise n.unsupported(f"it has {len(sets)} sets for {len(asking)} nodes", "Export it again.")
    begin, made = len(modes) + len(n.attr("leaf_targetids")), list[int]()
    for i, members in zip(asking, sets, strict=True):
        modes[i], values[i], otherwise = "BRANCH_EQ", members[0], no[i]
        at = i
        for member in members[1:]:
            no[at] = begin + len(made)
            made.append(i)
            at = len(modes)
            modes.append("BRANCH_EQ")
            values.append(member)
            yes.append(yes[i])
            no.append(otherwise)
    return made


ROWS = (
    Operator("TreeEnsembleRegressor", regressor, domain=DOMAIN),
    Operator("TreeEnsembleClassifier", classifier, domain=DOMAIN),
    Operator("TreeEnsemble", ensemble, domain=DOMAIN),
)
