"""Writes llama_cpp.json: greedy tokens of stories260K.gguf as llama.cpp gives them, caches in f32.

Usage: python tests/llama/from_llama_cpp.py stories260K.gguf   (needs llama-cpp-python; 0.3.36 wrote what is here)
"""

import json
import sys
from pathlib import Path

import llama_cpp

PROMPTS = ("Once upon a time", "The cat", "Tom and Ann had a big", "One day, 🦊")
F32 = 0  # ggml's number of the type


def main() -> None:
    model = llama_cpp.Llama(
        sys.argv[1], n_ctx=512, type_k=F32, type_v=F32, n_threads=1, verbose=False
    )
    rows = []
    for prompt in PROMPTS:
        ids = model.tokenize(prompt.encode(), add_bos=True, special=True)
        model.reset()
        found: list[int] = []
        for token in model.generate(ids, temp=0.0, repeat_penalty=1.0):
            if token == model.token_eos() or len(found) == 120:
                break
            found.append(token)
        rows.append({"prompt": prompt, "ids": ids, "tokens": found})
    text = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    (Path(__file__).parent / "llama_cpp.json").write_text(f"[\n{text}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
