"""How similar sentences are: a matrix of cosines, by a built project's Python module.

lumigen compile model.py --weights DIRECTORY -o minilm-cpu
python similarity.py --tokenizer DIRECTORY/tokenizer.json "A cat sits." "A dog sits."
"""

import argparse
import importlib
import sys
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer


def tokenize(tokenizer, sentences, longest=512):
    """ids and mask, (sentences, tokens), padded to the longest sentence."""
    tokenizer.enable_truncation(longest)
    tokenizer.enable_padding()
    encoded = tokenizer.encode_batch(sentences)
    ids = np.array([e.ids for e in encoded], np.int64)
    mask = np.array([e.attention_mask for e in encoded], np.int64)
    return ids, mask


def matrix(similarity, sentences):
    """The similarities as a table, each row beside its sentence."""
    rows = [" ".join(f"{s:6.3f}" for s in row) for row in similarity]
    return "\n".join(f"{row}  {text}" for row, text in zip(rows, sentences, strict=True))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sentences", nargs="+")
    parser.add_argument("--project", type=Path, default=Path("minilm-cpu"))
    parser.add_argument("--tokenizer", type=Path, required=True, help="the model's tokenizer.json")
    parser.add_argument("--weights", type=Path, help="if they are not in the project")
    options = parser.parse_args()
    if not options.tokenizer.is_file():
        parser.error(f"there is no file {options.tokenizer}; name the model's tokenizer.json")
    if not (options.project / "python").is_dir():
        parser.error(f"{options.project} is no project that `lumigen compile` built")
    if options.weights and not options.weights.is_file():
        parser.error(f"there is no file {options.weights}; name the model's weights")

    sys.path.insert(0, str(options.project / "python"))
    minilm = importlib.import_module("minilm")

    model = minilm.Model(weights=str(options.weights)) if options.weights else minilm.Model()
    tokenizer = Tokenizer.from_file(str(options.tokenizer))
    ids, mask = tokenize(tokenizer, options.sentences)
    embedding = np.asarray(model.context().embed(ids, mask))
    print(matrix(embedding @ embedding.T, options.sentences))


if __name__ == "__main__":
    main()
