"""The files of `lumigen new`: a model, a script that makes weights for it, a README."""

from __future__ import annotations

import re
import secrets
import shutil
from pathlib import Path

from lumigen.errors import BadArgument, FileRefused
from lumigen.frontend.spec import check_identifier
from lumigen.names import model_taken_by
from lumigen.target import HOST

MODEL = '''"""{name}: a network of two layers."""

import lumigen as lg
from lumigen import nn

net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
model = lg.Model("{name}", net, version="0.1.0")


@model.entry(x=lg.spec(lg.Dim("batch", 1, 64, typical=8), 64, dtype=lg.f32))
def classify(x):
    return {{"probs": net(x).softmax(-1)}}
'''

WEIGHTS = '''"""Writes {name}.safetensors with random numbers: put trained ones in their place.

A PyTorch model whose state_dict has these names saves them with
safetensors.torch.save_file(module.state_dict(), "{name}.safetensors").
"""

import numpy as np
from model import model
from safetensors.numpy import save_file

rng = np.random.default_rng(0)
tensors = {{}}
for weight in model.trace().weights:
    values = rng.normal(0, 1 / np.sqrt(weight.shape[-1]), weight.shape)
    if weight.name.endswith("var"):  # the variances of a batch norm
        values = 1 + np.abs(values)
    tensors[weight.name] = values.astype(weight.dtype.numpy)
save_file(tensors, "{name}.safetensors")
'''

README = """# {name}

```sh
{steps}
```

From Python, in one step:

```python
import lumigen as lg
from model import model

{name} = lg.compile(model, weights="{name}.safetensors")
```
"""

STEPS = (  # a line for the shell, what it does
    ("python weights.py", "writes {name}.safetensors"),
    ("lumigen compile model.py --weights {name}.safetensors", "emits and builds {name}-{target}"),
    ("lumigen run {name}-{target} --dims batch=8", "yours with --input x=file.npy"),
    ("lumigen test {name}-{target}", "kernels against plain references"),
)

FILES = {"model.py": MODEL, "weights.py": WEIGHTS, "README.md": README}


def steps(name: str) -> list[str]:
    """What to do in the directory, with what each line does beside it."""
    named = {"name": name, "target": HOST.name}
    rows = [(line.format(**named), what.format(**named)) for line, what in STEPS]
    width = max(len(line) for line, _ in rows)
    return [f"{line:<{width}}  # {what}" for line, what in rows]


def model_name(directory: Path) -> str:
    """The name of the model of a directory: what C, C++ and Python take for a name."""
    name = re.sub(r"\W", "_", directory.name, flags=re.ASCII)
    if not re.match(r"[A-Za-z]", name):
        raise BadArgument(
            op="new",
            name="NAME",
            value=repr(directory.name),
            expected="a name that begins with a letter from A to Z",
        )
    check_identifier("new", name, model_taken_by)
    return name


def write(directory: Path) -> Path:
    """Make the directory, whole or not at all."""
    name = model_name(directory)
    if directory.exists():
        remedy = "Choose another name, or remove it yourself."
        raise FileRefused(command="new", file=directory, why="it is there already", remedy=remedy)
    directory.parent.mkdir(parents=True, exist_ok=True)
    staging = directory.with_name(f".{secrets.token_hex(8)}.part")
    staging.mkdir()
    try:
        for file, text in FILES.items():
            (staging / file).write_text(
                text.format(name=name, steps="\n".join(steps(name))), encoding="utf-8"
            )
        staging.rename(directory)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise
    return directory
