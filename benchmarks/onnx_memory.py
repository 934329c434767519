"""The most memory that the compilation of an ONNX file takes whose weights lie beside it, by the size of the weights.

    python3 benchmarks/onnx_memory.py [--gigabytes 2]

A chain of products of 8192 x 8192 floats, 256 MiB each. What is counted is the memory of the whole process, with the
pages of files that it has mapped.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

SIZE = 8192
BYTES = 4 * SIZE * SIZE
MIB = 2**20


def write(folder: Path, count: int) -> Path:
    """A file of so many products, and its weights in `model.data`."""
    random = np.random.default_rng(0)
    weights: list[TensorProto] = []
    nodes: list[onnx.NodeProto] = []
    with (folder / "model.data").open("wb") as file:
        for i in range(count):
            weight = TensorProto(name=f"w{i}", data_type=TensorProto.FLOAT, dims=(SIZE, SIZE))
            weight.data_location = TensorProto.EXTERNAL
            at = {"location": "model.data", "offset": i * BYTES, "length": BYTES}
            for key, value in at.items():
                weight.external_data.add(key=key, value=str(value))
            random.standard_normal((SIZE, SIZE), dtype=np.float32).tofile(file)
            weights.append(weight)
            nodes.append(helper.make_node("MatMul", [f"x{i}", f"w{i}"], [f"x{i + 1}"]))
    ports = [
        helper.make_tensor_value_info(f"x{i}", TensorProto.FLOAT, ("batch", SIZE))
        for i in (0, count)
    ]
    graph = helper.make_graph(nodes, "chain", ports[:1], ports[1:], weights)
    path = folder / "model.onnx"
    opsets = [helper.make_opsetid("", 17)]
    path.write_bytes(helper.make_model(graph, opset_imports=opsets).SerializeToString())
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--gigabytes", type=float, default=2.0)
    count = max(1, round(parser.parse_args().gigabytes * 2**30 / BYTES))
    with tempfile.TemporaryDirectory() as name:
        path = write(Path(name), count)
        command = [sys.executable, "-m", "lumigen", "compile", str(path), "--dim", "batch=1..4"]
        command += ["--no-build", "--output", str(path.with_name("project"))]
        subprocess.run(command, check=True)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    weights = count * BYTES
    print(f"weights {weights / MIB:.0f} MiB, memory {peak / MIB:.0f} MiB: {peak / weights:.3f}")


if __name__ == "__main__":
    main()
