"""ONNX files with mistakes: bytes and parts of messages changed by chance; each is a model, or one clear message.

    python tests/sweeps/onnx_fuzz.py --seconds 600 [--seed 7]

It prints each fault with the seed that makes it again (`--only SEED`), and exits with code 1 if there is one.
"""

from __future__ import annotations

import argparse
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

import lumigen as lg
from lumigen.errors import UserError
from lumigen.importers.onnx import explained, inspected

NUMBERS = (0, 1, -1, 2, 7, 127, 128, 255, 2**31 - 1, -(2**31), 2**62, 2**63 - 1, -(2**63))
LONGEST = 10  # seconds that one file may take
LINES = 8  # of a message
MEMORY = 4 << 30
F = onnx.TensorProto.FLOAT


def bases() -> list[bytes]:
    """Small models with most kinds of parts: functions, branches, loops, quantised numbers, sequences, trees."""
    return [m.SerializeToString() for m in (_layers(), _control(), _integers(), _forest())]


def _made(
    nodes: Sequence[Any], inputs: dict[str, Any], outputs: str, initial: Any = (), **more: Any
) -> Any:
    ports = [helper.make_tensor_value_info(n, t, s) for n, (t, s) in inputs.items()]
    ends = [helper.make_empty_tensor_value_info(o) for o in outputs.split()]
    tensors = [numpy_helper.from_array(np.asarray(a), n) for n, a in dict(initial).items()]
    graph = helper.make_graph(list(nodes), "g", ports, ends, tensors)
    sets = [("", 17), ("com.microsoft", 1), ("ai.onnx.ml", 3), ("own", 1)]
    opsets = [helper.make_opsetid(d, v) for d, v in sets]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8, **more)


def _layers() -> Any:
    n = helper.make_node
    weights = {
        "w": np.ones((2, 1, 3, 3), np.float32),
        "v": np.ones((8, 2), np.float32),
        "s": np.array([0, -1]),
        "r": np.ones((1, 16, 4), np.float32),
    }
    nodes = [
        n("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
        n("Relu", ["a"], ["b"]),
        n("MaxPool", ["b"], ["c"], kernel_shape=[2, 2], strides=[2, 2]),
        n("Reshape", ["c", "s"], ["d"]),
        n("Gemm", ["d", "v"], ["e"]),
        n("Softmax", ["e"], ["y"], axis=-1),
        n("Transpose", ["e"], ["t"], perm=[1, 0]),
        n("Resize", ["b", "", "scales"], ["u"], mode="linear"),
        n("Einsum", ["d", "v"], ["z"], equation="ij,jk->ik"),
    ]
    weights["scales"] = np.array([1, 1, 2, 2], np.float32)
    return _made(nodes, {"x": (F, ["n", 1, 4, 4])}, "y t u z", weights)


def _control() -> Any:
    n = helper.make_node
    info = helper.make_empty_tensor_value_info
    branch = helper.make_graph([n("Exp", ["x"], ["p"])], "b", [], [info("p")])
    other = helper.make_graph([n("Neg", ["x"], ["p"])], "o", [], [info("p")])
    body = helper.make_graph(
        [n("Add", ["h", "x"], ["k"]), n("Identity", ["g"], ["l"])],
        "l",
        [info("i"), info("g"), info("h")],
        [info("l"), info("k")],
    )
    leak = helper.make_function(
        "own", "Leak", ["a"], ["b"], [n("LeakyRelu", ["a"], ["b"])], [helper.make_opsetid("", 17)]
    )
    nodes = [
        n("If", ["yes"], ["a"], then_branch=branch, else_branch=other),
        n("Loop", ["three", "true", "a"], ["b"], body=body),
        n("Leak", ["b"], ["c"], domain="own"),
        n("SequenceConstruct", ["c", "x"], ["q"]),
        n("ConcatFromSequence", ["q"], ["d"], axis=0),
        n("Shape", ["d"], ["s"]),
        n("Gather", ["s", "zero"], ["t"], axis=0),
        n("Range", ["zero", "t", "one"], ["r"]),
        n("TopK", ["d", "k"], ["y", "i"], axis=0),
        n("Pad", ["d", "pads"], ["u"]),
        n("Slice", ["d", "first", "k"], ["z"]),
    ]
    weights = {
        "three": np.array(3),
        "true": np.array(True),
        "zero": np.array(0),
        "one": np.array(1),
        "k": np.array([1]),
        "first": np.array([0]),
        "pads": np.array([0, 1, 1, 0]),
    }
    ports = {"x": (F, ["n", 3]), "yes": (onnx.TensorProto.BOOL, [])}
    return _made(nodes, ports, "y r i u z", weights, functions=[leak])


def _integers() -> Any:
    n = helper.make_node
    weights = {
        "scale": np.array(0.5, np.float32),
        "zero": np.array(3, np.uint8),
        "w": np.ones((4, 2), np.uint8),
        "r": np.ones((1, 8, 2), np.float32),
        "q": np.ones((1, 8, 4), np.float32),
    }
    nodes = [
        n("QuantizeLinear", ["x", "scale", "zero"], ["a"]),
        n("MatMulInteger", ["a", "w"], ["b"]),
        n("DequantizeLinear", ["a", "scale", "zero"], ["c"]),
        n("FusedMatMul", ["c", "c"], ["d"], domain="com.microsoft", transB=1),
        n("Unsqueeze", ["c", "axes"], ["e"]),
        n("LSTM", ["e", "q", "r"], ["h"], hidden_size=2),
        n("DynamicQuantizeLinear", ["x"], ["f", "g", "i"]),
        n("CumSum", ["x", "axis"], ["j"]),
        n("OneHot", ["ids", "depth", "values"], ["y"]),
    ]
    weights |= {
        "axes": np.array([1]),
        "axis": np.array(0),
        "depth": np.array(5),
        "values": np.array([0, 1], np.float32),
        "ids": np.array([1, 2]),
    }
    return _made(nodes, {"x": (F, ["n", 4])}, "b d h f j y", weights)


def _forest() -> Any:
    given = {
        "nodes_treeids": [0, 0, 0],
        "nodes_nodeids": [0, 1, 2],
        "nodes_featureids": [1, 0, 0],
        "nodes_values": [0.5, 0.0, 0.0],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
        "nodes_truenodeids": [1, 0, 0],
        "nodes_falsenodeids": [2, 0, 0],
        "target_treeids": [0, 0],
        "target_nodeids": [1, 2],
        "target_ids": [0, 1],
        "target_weights": [1.0, -1.0],
        "n_targets": 2,
    }
    nodes = [
        helper.make_node("TreeEnsembleRegressor", ["x"], ["a"], domain="ai.onnx.ml", **given),
        helper.make_node("Normalizer", ["a"], ["b"], domain="ai.onnx.ml", norm="L2"),
        helper.make_node(
            "LinearRegressor", ["b"], ["y"], domain="ai.onnx.ml", coefficients=[1.0, 2], targets=1
        ),
    ]
    return _made(nodes, {"x": (F, ["n", 2])}, "y")


# --- changes ----------------------------------------------------------------------------------------


def changed(base: bytes, chance: random.Random) -> bytes:
    """The file with some bytes changed, cut short, or with parts of its message changed."""
    if chance.random() < 0.3:
        out = bytearray(base)
        for _ in range(chance.choice([1, 1, 2, 8])):
            out[chance.randrange(len(out))] = chance.choice([0, 1, 8, 127, 128, 255])
        return bytes(out[: chance.randrange(len(out))] if chance.random() < 0.1 else out)
    proto = onnx.ModelProto()
    proto.ParseFromString(base)
    for _ in range(chance.choice([1, 1, 2, 3])):
        _change(proto, chance)
    try:
        return proto.SerializeToString()
    except Exception:  # noqa: BLE001  # names that are no text, which protobuf refuses in many ways
        return base


def _change(proto: Any, chance: random.Random) -> None:
    """One field of a message somewhere inside."""
    places = _fields(proto)
    message, f = chance.choice(places)
    names = [n for m, d in places if d.name in ("input", "output", "name") for n in _texts(m, d)]
    if f.is_repeated:
        _change_list(getattr(message, f.name), f, chance, names)
    elif f.message_type is not None or chance.random() < 0.2:
        message.ClearField(f.name)
    else:
        setattr(message, f.name, _value(f, chance, names))


def _change_list(items: Any, f: Any, chance: random.Random, names: Sequence[str]) -> None:
    at = chance.randrange(len(items))
    way = chance.random()
    if way < 0.3:
        del items[at]
    elif f.message_type is not None:
        items.add().CopyFrom(items[at])
    elif way < 0.5:
        items.append(items[at])
    elif way < 0.52:
        items.extend([items[at]] * 50_000)
    else:
        items[at] = _value(f, chance, names)


def _value(f: Any, chance: random.Random, names: Sequence[str]) -> Any:
    match f.cpp_type:
        case f.CPPTYPE_STRING if f.type == f.TYPE_BYTES:
            return chance.choice([b"", b"\xff", b"BRANCH_EQ", b"linear", chance.randbytes(40)])
        case f.CPPTYPE_STRING:
            return chance.choice([*names, "", "ai.onnx.ml", "Loop", "Shape", "Reshape", "Cast"])
        case f.CPPTYPE_FLOAT | f.CPPTYPE_DOUBLE:
            return chance.choice([0.0, -1.0, 1e30, float("nan"), float("inf")])
        case f.CPPTYPE_ENUM:
            return chance.choice([v.number for v in f.enum_type.values])
        case _:
            low, high = {
                f.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
                f.CPPTYPE_UINT32: (0, 2**32 - 1),
                f.CPPTYPE_UINT64: (0, 2**64 - 1),
            }.get(f.cpp_type, (-(2**63), 2**63 - 1))
            return max(low, min(high, chance.choice([*NUMBERS, chance.randrange(30)])))


def _fields(proto: Any) -> list[tuple[Any, Any]]:
    """Every field that is set in a message and those inside it."""
    out: list[tuple[Any, Any]] = []
    todo = [proto]
    while todo:
        message = todo.pop()
        for f, value in message.ListFields():
            out.append((message, f))
            if f.message_type is not None:
                todo += list(value) if f.is_repeated else [value]
    return out


def _texts(message: Any, f: Any) -> list[str]:
    value = getattr(message, f.name)
    return [value] if isinstance(value, str) else [v for v in value if isinstance(v, str)]


# --- trials -----------------------------------------------------------------------------------------


def trial(content: bytes, folder: Path, *, looks: bool) -> str:
    """How a file goes: `made`, `refused`, or what is wrong with how it went."""
    file = folder / "net.onnx"
    file.write_bytes(content)
    try:
        if looks:
            inspected(file)
            explained(file, {}, {})
        lg.from_onnx(file, dims={"n": (1, 4)})
        how = "made"
    except UserError as e:
        how = (
            "refused"
            if str(e).count("\n") < LINES
            else f"a message of {str(e).count(chr(10))} lines"
        )
    except Exception:  # noqa: BLE001  # what is looked for
        how = traceback.format_exc()[-1500:]
    return how if [p.name for p in folder.iterdir()] == ["net.onnx"] else "it wrote files"


def content_of(seed: int, made: Sequence[bytes]) -> bytes:
    chance = random.Random(seed)
    return changed(chance.choice(made), chance)


def stopped(*_: object) -> None:
    raise RuntimeError(f"it takes more than {LONGEST} s")  # which no import hides: it is no misfit


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, metavar="SEED", help="this one alone")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    signal.signal(signal.SIGALRM, stopped)
    made, counts, faults = bases(), Counter[str](), Counter[str]()
    end, seed = time.monotonic() + args.seconds, args.seed if args.only is None else args.only
    with tempfile.TemporaryDirectory() as folder:
        while time.monotonic() < end:
            signal.alarm(LONGEST)
            how = trial(content_of(seed, made), Path(folder), looks=seed % 4 == 0)
            signal.alarm(0)
            counts[how if how in ("made", "refused") else "fault"] += 1
            if how not in ("made", "refused"):
                faults[how[-300:]] += 1
                if faults[how[-300:]] == 1:
                    print(f"seed {seed}: {how}", flush=True)
            seed += 1
            if args.only is not None:
                break
    print(", ".join(f"{n} {how}" for how, n in counts.items()))
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
