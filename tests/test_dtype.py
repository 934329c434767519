"""Element types are compared as objects, so there is one of each."""

from __future__ import annotations

import copy
import pickle

import pytest

from lumigen.dtype import DTYPES, DType


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_copy_is_the_same_object(dtype: DType) -> None:
    assert copy.copy(dtype) is copy.deepcopy([dtype])[0] is dtype
    assert pickle.loads(pickle.dumps(dtype)) is dtype
