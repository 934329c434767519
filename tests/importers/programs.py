"""A program in C++ that links a compiled model, as docs/shipping.md says."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np

PROGRAM = """
#include <cstdio>
#include <vector>

#include "NAME.hpp"

int main() {
  NAME::ModelOptions options;
  options.weights_path = "PLACE/weights/NAME.safetensors";
  NAME::Model model(options);
  NAME::Context context(model);
  std::vector<float> x(INPUT), out(OUTPUT);
  if (std::fread(x.data(), sizeof(float), x.size(), stdin) != x.size()) return 1;
  context.forward(NAME::view(x, {IN_SHAPE}), NAME::view(out, {OUT_SHAPE}));
  return std::fwrite(out.data(), sizeof(float), out.size(), stdout) == out.size() ? 0 : 1;
}
"""


def of_a_program(project: Path, name: str, x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """What a program that calls `forward` of a built project writes: from one f32 input to one output."""
    text = PROGRAM
    for word, value in {
        "NAME": name,
        "PLACE": str(project),
        "IN_SHAPE": ", ".join(map(str, x.shape)),
        "OUT_SHAPE": ", ".join(map(str, shape)),
        "INPUT": str(x.size),
        "OUTPUT": str(np.prod(shape)),
    }.items():
        text = text.replace(word, value)
    source, program = project.parent / "app.cpp", project.parent / "app"
    source.write_text(text, encoding="utf-8")
    library = project / "lib"
    linked = ["-I", project / "include", "-L", library, f"-l{name}", f"-Wl,-rpath,{library}"]
    subprocess.run(["c++", "-std=c++17", source, *linked, "-o", program], check=True)
    done = subprocess.run(
        [program], input=x.astype(np.float32).tobytes(), capture_output=True, check=True
    )
    return np.frombuffer(done.stdout, np.float32).reshape(shape)
