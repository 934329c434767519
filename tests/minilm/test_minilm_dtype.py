"""MiniLM held in 16 bits: the same kernels, half the weights, embeddings near those of PyTorch in float64."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import sentences
from minilm_reference import MODEL, embed

from lumigen import fast_lane
from lumigen.dtype import DType, bf16, f16
from lumigen.frontend import load_model_file
from lumigen.pipeline import Compilation, lower_model
from lumigen.weights import Weights

# 1 - cosine was 8e-7 in f16 and 7e-5 in bf16 at most, with 2e-4 and 2e-3 as the greatest error of an element.
LEAST_COSINE = {f16: 0.99999, bf16: 0.9998}
MOST_ERROR = {f16: 1e-3, bf16: 8e-3}


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [f16, bf16], ids=str)
def test_embeddings_are_near_those_of_torch(
    dtype: DType, weights: Weights, doubles, compilation: Compilation
) -> None:
    narrow = lower_model(load_model_file(MODEL, weights=weights).trace(), {}, dtype=dtype)
    skeletons = [[k.program.skeleton for k in c.lowered.kernels] for c in (compilation, narrow)]
    assert skeletons[0] == skeletons[1]
    wide_bytes, narrow_bytes = (
        sum(s.bytes for s in c.model.weights) for c in (compilation, narrow)
    )
    assert 0.49 < narrow_bytes / wide_bytes < 0.51
    assert {k.region.stores[0].dst.dtype for k in narrow.lowered.kernels} == {dtype}

    lane = fast_lane.load(narrow.lowered)
    packed = lane.packed({name: np.asarray(weights[name]) for name in weights})
    (program,) = narrow.lowered.programs
    names = [p.name for p in program.inputs]
    for batch, length in [(1, 1), (2, 17), (5, 64), (1, 200)]:
        ids, mask = sentences.ids(batch, length), sentences.mask("ragged", batch, length)
        call = lane.prepare(program.entry, dict(zip(names, (ids, mask), strict=True)), packed)
        call.run()
        got = call.outputs["embedding"]
        assert got.dtype == np.dtype(dtype.numpy)
        got = got.astype(np.float64)
        expected = embed(weights.config, doubles, ids, mask)
        cosine = (got * expected).sum(-1) / np.linalg.norm(got, axis=-1)
        error = np.abs(got - expected).max()
        sys.stdout.write(
            f"{dtype} {batch} x {length}: 1 - cosine {1 - cosine.min():.1e}, error {error:.1e}\n"
        )
        assert cosine.min() >= LEAST_COSINE[dtype]
        assert error <= MOST_ERROR[dtype]
