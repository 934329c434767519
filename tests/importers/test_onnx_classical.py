"""Operators of classical machine learning (ai.onnx.ml): numbers of the reference evaluator, trees of every shape."""

from __future__ import annotations

import sys
from typing import Any
from unittest import mock

import numpy as np
import pytest
from onnx import numpy_helper
from onnx_models import expected, model, node, run

import lumigen as lg
from lumigen import errors
from lumigen.importers.onnx.ports import identifier

F, ML = np.float32, "ai.onnx.ml"
MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]


def one(op: str, x: np.ndarray, outputs: str = "y", version: int = 3, **attributes: Any):
    """A model of one node."""
    proto = model(
        [node(op, "x", outputs, domain=ML, **attributes)],
        {"x": (x.dtype, ["n", *x.shape[1:]])},
        outputs,
    )
    next(o for o in proto.opset_import if o.domain == ML).version = version
    return proto


def same(op: str, x: np.ndarray, outputs: str = "y", version: int = 3, **attributes: Any) -> None:
    proto = one(op, x, outputs, version, **attributes)
    wanted = expected(proto, {"x": x})
    found = run(proto, {"x": x}, {"n": (1, 64)})
    for name, want in wanted.items():
        np.testing.assert_allclose(found[identifier(name, ())], want, rtol=1e-4, atol=1e-5)


X = np.random.default_rng(3).standard_normal((7, 4)).astype(F)
WHOLE = np.array([[1], [3], [7], [3]])
FEATURES = {
    "scaled": ("Scaler", X, {"offset": [0.5, 1, -1, 0], "scale": [2.0, 3, 4, 0.5]}),
    "scaled_by_one": ("Scaler", X, {"offset": [0.5], "scale": [2.0]}),
    "max": ("Normalizer", X, {"norm": "MAX"}),
    "l1": ("Normalizer", X, {"norm": "L1"}),
    "l2": ("Normalizer", np.concatenate([X, X[:1] * 0]), {"norm": "L2"}),
    "binary": ("Binarizer", X, {"threshold": 0.25}),
    "imputed": (
        "Imputer",
        np.where(X > 1, np.nan, X).astype(F),
        {"imputed_value_floats": [1.0, 2, 3, 4], "replaced_value_float": np.nan},
    ),
    "imputed_by_one": (
        "Imputer",
        WHOLE,
        {"imputed_value_int64s": [9], "replaced_value_int64": 3},
    ),
    "encoded": ("LabelEncoder", WHOLE, {"keys_int64s": [1, 3], "values_floats": [0.5, 7.5]}),
    "encoded_floats": (
        "LabelEncoder",
        np.array([[1, 2.5, 5]], F),
        {"keys_floats": [1.0, 2.5], "values_int64s": [4, 8], "default_int64": 2},
    ),
    "one_hot": ("OneHotEncoder", np.array([1, 3, 7, 3]), {"cats_int64s": [3, 1, 5]}),
    "fitted": (
        "LinearRegressor",
        X,
        {"coefficients": [1.0, 2, 3, 4, 5, 6, 7, 8], "intercepts": [0.5, -1], "targets": 2},
    ),
    "supported": (
        "SVMRegressor",
        X,
        {
            "kernel_type": "RBF",
            "kernel_params": [0.4, 0.0, 3.0],
            "n_supports": 3,
            "support_vectors": X[:3].reshape(-1).tolist(),
            "coefficients": [1.0, -0.5, 2],
            "rho": [0.25],
        },
    ),
    "supported_by_powers": (
        "SVMRegressor",
        X,
        {
            "kernel_type": "POLY",
            "kernel_params": [0.4, 1.0, 3.0],
            "n_supports": 2,
            "support_vectors": X[:2].reshape(-1).tolist(),
            "coefficients": [1.0, -0.5],
            "rho": [0.25],
        },
    ),
}


@pytest.mark.parametrize("name", FEATURES)
def test_features_and_linear_models(name: str) -> None:
    op, x, attributes = FEATURES[name]
    same(op, x, version=4 if op == "LabelEncoder" else 1, **attributes)


@pytest.mark.slow
@pytest.mark.parametrize("counts", [[2, 3], [2, 1, 3], [1, 2, 1, 2]])
@pytest.mark.parametrize("is_probable", [False, True])
def test_support_vectors_vote_for_classes(counts: list[int], *, is_probable: bool) -> None:
    """As onnxruntime does; the reference evaluator couples probabilities otherwise."""
    rng = np.random.default_rng(len(counts))
    total, classes, labels = sum(counts), len(counts), [5, 2, 9, 7]
    pairs = [(i, j) for i in range(classes) for j in range(i + 1, classes)]
    x, vectors = (rng.standard_normal((n, 4)).astype(F) for n in (20, total))
    weight = rng.normal(0, 2, (classes - 1, total)).astype(F)
    rho, a, b = (rng.normal(0, 0.3, len(pairs)).astype(F) for _ in range(3))
    given = {"prob_a": a.tolist(), "prob_b": b.tolist()} if is_probable else {}
    proto = one(
        "SVMClassifier",
        x,
        "label scores",
        kernel_type="RBF",
        kernel_params=[0.4, 0.0, 3.0],
        vectors_per_class=counts,
        support_vectors=vectors.reshape(-1).tolist(),
        coefficients=weight.reshape(-1).tolist(),
        rho=rho.tolist(),
        classlabels_ints=labels[:classes],
        **given,
    )
    found = run(proto, {"x": x}, {"n": (1, 64)})
    near = np.exp(-0.4 * ((x[:, None] - vectors) ** 2).sum(-1))
    of = np.repeat(np.arange(classes), counts)
    scores = np.stack(
        [
            near[:, of == i] @ weight[j - 1, of == i] + near[:, of == j] @ weight[i, of == j] + r
            for (i, j), r in zip(pairs, rho, strict=True)
        ],
        -1,
    )
    winners = np.where(scores > 0, *np.transpose(pairs)[..., None, :])
    votes = (winners[..., None] == np.arange(classes)).sum(1)
    np.testing.assert_array_equal(found["label"], np.take(labels, votes.argmax(-1)))
    if not is_probable:
        want = np.concatenate([-scores, scores], 1) if classes == 2 else scores
        np.testing.assert_allclose(found["scores"], want, atol=1e-5)
        return
    first = 1 / (1 + np.exp(scores * a + b))
    for p, shares in zip(found["scores"], first, strict=True):  # the least squares of the paper
        rows = np.zeros((len(pairs), classes))
        for row, (i, j), share in zip(rows, pairs, shares, strict=True):
            row[i], row[j] = 1 - share, -share
        system = np.block([[rows.T @ rows, np.ones((classes, 1))], [np.ones(classes), 0]])
        exact = np.linalg.solve(system, np.eye(classes + 1)[-1])[:-1]
        assert np.sum(p) == pytest.approx(1, abs=1e-5)
        assert np.abs(p - exact).max() < 0.02


def test_a_key_may_be_no_number() -> None:
    """Which the reference evaluator does not find, and onnxruntime does."""
    given = {"keys_floats": [1.0, np.nan], "values_int64s": [4, 8], "default_int64": 2}
    x = np.array([[1, np.nan, 5]], F)
    found = run(one("LabelEncoder", x, version=4, **given), {"x": x}, {"n": 1})
    np.testing.assert_array_equal(found["y"], [[4, 8, 2]])


def test_columns_are_joined_and_chosen() -> None:
    nodes = [
        node("FeatureVectorizer", "x w", "v", domain=ML, inputdimensions=[4, 1]),
        node("ArrayFeatureExtractor", "v at", "y", domain=ML),
    ]
    ports = {"x": (F, ["n", 4]), "w": (np.int64, ["n", 1])}
    proto = model(nodes, ports, "y", {"at": np.array([[4, 1]])})
    arrays = {"x": X[:4], "w": WHOLE}
    np.testing.assert_allclose(run(proto, arrays, {"n": (1, 8)})["y"], expected(proto, arrays)["y"])


@pytest.mark.parametrize("how", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])
@pytest.mark.parametrize("classes", [1, 2, 3])
def test_linear_classifiers(classes: int, how: str) -> None:
    """Two classes by one row of coefficients, and more by a row for each; labels that are no places."""
    rows = 1 if classes < 3 else classes
    rng = np.random.default_rng(classes)
    given = {
        "coefficients": rng.standard_normal(rows * 4).tolist(),
        "intercepts": rng.standard_normal(rows).tolist(),
        "classlabels_ints": [5, 3, 8][:classes],
    }
    same("LinearClassifier", X, "label score", 1, post_transform=how, **given)


# --- trees ------------------------------------------------------------------------------------------


def forest(
    rng: np.random.Generator, modes: list[str], kind: str, targets: int, missing: bool
) -> dict[str, Any]:
    """Attributes of some trees, from a leaf alone to six levels."""
    out: dict[str, list[Any]] = {}

    def put(**values: Any) -> None:
        for name, value in values.items():
            out.setdefault(name, []).append(value)

    for tree in range(5):
        free, todo = 1, [(0, 0)]
        while todo:
            number, depth = todo.pop()
            is_leaf = depth >= tree or (depth > 1 and rng.random() < 0.3)
            yes, no = (0, 0) if is_leaf else (free, free + 1)
            put(
                nodes_treeids=tree,
                nodes_nodeids=number,
                nodes_featureids=int(rng.integers(4)),
                nodes_values=float(np.round(rng.standard_normal(), 1)),
                nodes_modes="LEAF" if is_leaf else modes[int(rng.integers(len(modes)))],
                nodes_truenodeids=yes,
                nodes_falsenodeids=no,
                nodes_missing_value_tracks_true=int(missing and rng.random() < 0.5),
            )
            if is_leaf:
                weights = {
                    f"{kind}_treeids": tree,
                    f"{kind}_nodeids": number,
                    f"{kind}_ids": int(rng.integers(targets)),
                    f"{kind}_weights": float(rng.random()),
                }
                put(**weights)
            else:
                free += 2
                todo += [(yes, depth + 1), (no, depth + 1)]
    return out


GIVEN = np.round(np.random.default_rng(9).standard_normal((40, 4)), 1).astype(F)
GIVEN[::7, 2] = np.nan


@pytest.mark.parametrize("modes", [MODES[:1], MODES], ids=["one", "all"])
@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
def test_trees_of_numbers(aggregate: str, modes: list[str], rng: np.random.Generator) -> None:
    given = forest(rng, modes, "target", 2, missing=aggregate == "SUM")
    more = {"n_targets": 2, "aggregate_function": aggregate, "base_values": [0.5, -1.0]}
    same("TreeEnsembleRegressor", GIVEN, **given, **more)


@pytest.mark.parametrize("how", ["NONE", "LOGISTIC", "SOFTMAX"])
@pytest.mark.parametrize("classes", [2, 3])
def test_trees_of_classes(classes: int, how: str, rng: np.random.Generator) -> None:
    """Two classes whose weights are of one alone, and three."""
    given = forest(rng, MODES[:1], "class", 1 if classes == 2 else 3, missing=False)
    given["class_weights"] = [w / 5 for w in given["class_weights"]]
    labels = [4, 9, 2][:classes]
    same(
        "TreeEnsembleClassifier",
        GIVEN,
        "label score",
        classlabels_int64s=labels,
        post_transform=how,
        **given,
    )


def test_trees_may_ask_for_members_of_sets() -> None:
    """As version 5 has it: leaves of their own, sets after each other."""
    tensors = {
        "nodes_splits": np.array([1.5, 0, 0, 2.5], F),
        "nodes_modes": np.array([0, 6, 6, 3], np.uint8),
        "membership_values": np.array([1.2, 3.7, 8.0, np.nan, 12.0, 7.0, np.nan], F),
        "leaf_weights": np.array([5, 7, -2, 3, 11], F),
    }
    given = {
        "nodes_featureids": [0, 1, 1, 2],
        "nodes_truenodeids": [1, 0, 1, 3],
        "nodes_falsenodeids": [2, 3, 2, 4],
        "nodes_trueleafs": [0, 1, 1, 1],
        "nodes_falseleafs": [0, 0, 1, 1],
        "leaf_targetids": [0, 1, 0, 1, 0],
        "tree_roots": [0],
        "n_targets": 2,
    }
    x = np.array([[a, b, c] for a in (1, 2) for b in (1.2, 3.7, 8, 12, 7, 4) for c in (2, 3)], F)
    tensors = {k: numpy_helper.from_array(v, k) for k, v in tensors.items()}
    same("TreeEnsemble", x, version=5, **given, **tensors)


@pytest.mark.parametrize(
    "labels", [{"classlabels_int64s": [7, 2]}, {"classlabels_strings": ["b", "a"]}]
)
def test_maps_of_rows_are_the_tensor_that_they_are_made_of(
    labels: dict[str, Any], monkeypatch
) -> None:
    """A classifier as skl2onnx writes it; its original gives maps."""
    nodes = [
        node("Softmax", "x", "p"),
        node("ZipMap", "p", "y", domain="ai.onnx.ml", **labels),
    ]
    proto = model(nodes, {"x": (F, ["n", 2])})
    x = np.array([[1, 2], [3, -1]], F)
    keys = next(iter(labels.values()))

    class InferenceSession:
        """Gives maps in the order of their keys, as onnxruntime does; the evaluator of onnx has no maps."""

        def __init__(self, *_: object, **__: object) -> None: ...

        def run(self, _: None, given: Any) -> list[Any]:
            e = np.exp(given["x"])
            rows = e / e.sum(-1, keepdims=True)
            return [[dict(sorted(zip(keys, row, strict=True))) for row in rows]]

    runtime = mock.MagicMock(
        InferenceSession=InferenceSession, __spec__=mock.MagicMock(), __version__="1.20"
    )
    monkeypatch.setitem(sys.modules, "onnxruntime", runtime)
    rows = lg.check(lg.from_onnx(proto, {"n": (1, 4)})).rows
    assert all(row.difference < 1e-6 < row.greatest for row in rows)
    both = np.exp(x) / np.exp(x).sum(-1, keepdims=True)
    np.testing.assert_allclose(run(proto, {"x": x}, {"n": (1, 4)})["y"], both, rtol=1e-6)


def test_what_is_no_arithmetic_is_refused(rng: np.random.Generator) -> None:
    x = GIVEN
    for op, given, text in (
        (
            "LinearClassifier",
            {"coefficients": [1.0] * 8, "classlabels_strings": ["a", "b"]},
            "strings",
        ),
        ("SVMClassifier", {"coefficients": [1.0]}, "no support vectors"),
        ("ZipMap", {"classlabels_int64s": [0]}, "1 labels"),
    ):
        with pytest.raises(errors.UnsupportedNode, match=text):
            lg.from_onnx(one(op, x, **given), dims={"n": 3})
    given = forest(rng, MODES[:1], "target", 1, missing=False)
    given["nodes_truenodeids"] = [0] * len(given["nodes_treeids"])
    with pytest.raises(errors.UnsupportedNode, match="lead in a circle"):
        lg.from_onnx(one("TreeEnsembleRegressor", x, n_targets=1, **given), dims={"n": 3})
