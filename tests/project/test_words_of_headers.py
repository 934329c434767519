"""Names that emitted files cannot bear as they are."""

from __future__ import annotations

import pytest

from lumigen.names import identifier, model_taken_by, taken_by

OF_HEADERS = ("INFINITY", "INT_MAX", "M_PI", "FLT_MAX", "CHAR_BIT", "BUFSIZ", "EDOM", "HUGE_VAL")
OF_CUDA = ("blockIdx", "gridDim", "cudaSuccess", "CUDART_VERSION", "LUMIGEN_NS")


@pytest.mark.parametrize("name", [*OF_HEADERS, *OF_CUDA, "NULL", "while"])
def test_what_headers_mean_by_a_word_it_cannot_be_called(name: str) -> None:
    assert taken_by(name) is not None
    renamed = identifier(name)
    assert renamed != name
    assert taken_by(renamed) is None


@pytest.mark.parametrize("name", ["N", "batch", "MAX_LENGTH", "ROWS", "EXPERTS", "cuda_", "M"])
def test_other_words_are_free(name: str) -> None:
    assert taken_by(name) is None
    assert identifier(name) == name


@pytest.mark.parametrize("name", ["w", "R", "x", "f"])
def test_a_model_is_not_named_as_a_macro_of_its_status(name: str) -> None:
    assert f"{name.upper()}_OK" in str(model_taken_by(name))
    assert model_taken_by(f"{name}1") is None
