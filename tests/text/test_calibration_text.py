"""A text as inputs of a model that continues texts: contexts, parts, and what is held back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from counting import PLACES, decoder, narrow

from lumigen.errors import BadArgument
from lumigen.samples import samples

TEXT = "abcabcaab" * 5  # 45 tokens


def test_a_text_is_read_in_parts_of_contexts(tmp_path: Path) -> None:
    """Parts as long as the entry takes them; the last fifth token by token; a new context where one is full."""
    file = tmp_path / "a.txt"
    file.write_text(TEXT)
    found = samples(decoder().trace(), file)
    sizes = [call.inputs["ids"].size for call in found.calls]
    assert sizes == [4, 4, 4, 4, 4, 4, 4, 4, 4, *[1] * 9]
    assert [i for i, call in enumerate(found.calls) if call.is_new] == [0, 4, 8]
    assert found.held == 9
    ids = np.concatenate([call.inputs["ids"] for call in found.calls])
    assert "".join(" abc"[i] for i in ids) == TEXT
    for call in found.calls:
        assert call.inputs["position"] + call.inputs["ids"].size <= PLACES
    assert all(call.is_held for call in found.calls[-9:])
    assert len(found.measured) == 10  # from the beginning of the last context


def test_inputs_are_as_the_entry_declares_them(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("abcab")
    (first, *_) = samples(narrow().trace(), file).calls
    assert (first.inputs["ids"].shape, first.inputs["ids"].dtype) == ((1, 4), np.int32)
    assert first.inputs["position"].dtype == np.int32


def test_a_text_without_words_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("")
    with pytest.raises(BadArgument, match="a text of 0 tokens"):
        samples(decoder().trace(), file)
