"""Layers one by one, f32: an emitted project beside torch, torch.compile and onnxruntime.

    PYTHONPATH=. python3 benchmarks/layers.py --quick --cases lstm_1,max_pool2d

Weights are random. Each result is compared with torch's in f64 before anything is timed.
"""

# ruff: noqa: PLC0415  # a worker imports its own peer and no other

from __future__ import annotations

import importlib
import importlib.util
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import harness
import numpy as np
from harness import Case, Job, Samples, Worker
from layer_cases import CASES, Input, LayerCase, Library

BEHIND = 0.8  # of the better peer's speed: below, a row is marked


def libraries(name: str) -> Library:
    if name == "torch":
        import torch

        return Library(torch, torch.nn, torch.nn.functional, is_ours=False)
    import lumigen as lg

    return Library(lg, lg.nn, lg.functional, is_ours=True)


def network(name: str) -> Any:
    """In torch, with the same random weights in each process and norms whose statistics are not trivial."""
    import torch

    torch.manual_seed(0)
    net = CASES[name].make(libraries("torch")).eval()
    for module in net.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)
    return net


def tensors(name: str) -> list[Any]:
    import torch

    return [torch.from_numpy(x) for x in CASES[name].arrays()]


def each_that_runs(names: Sequence[str], make: Callable[[str], Case]) -> dict[str, Case]:
    """Cases that a peer can run; what it says of the others goes to its log."""
    out: dict[str, Case] = {}
    for name in names:
        try:
            case = make(name)
            case()
        except Exception as e:  # noqa: BLE001  # a peer that lacks one operation has the others
            print(f"{name}: {type(e).__name__}: {e}", file=sys.stderr)
        else:
            out[name] = case
    return out


# --- peers: what each worker does -----------------------------------------------------------------


def lumigen_peer(job: Job) -> dict[str, Case]:
    """The Python module of the emitted project; nothing of the compiler is imported."""
    sys.path.insert(0, str(Path(job["project"]) / "python"))
    context = importlib.import_module("layers").Model(threads=job["threads"]).context()

    def case(name: str) -> Case:
        run, inputs = getattr(context, name), CASES[name].arrays()
        return lambda: run(*inputs)

    return {name: case(name) for name in job["cases"]}


def torch_peer(job: Job) -> dict[str, Case]:
    import torch

    torch.set_num_threads(job["threads"])
    torch.set_grad_enabled(False)

    def case(name: str) -> Case:
        net, inputs = network(name), tensors(name)
        return lambda: net(*inputs)

    return {name: case(name) for name in job["cases"]}


def torch_compile_peer(job: Job) -> dict[str, Case]:
    """Frozen: weights are constants, packed for oneDNN."""
    import torch
    import torch._inductor.config as inductor

    torch.set_num_threads(job["threads"])
    torch.set_grad_enabled(False)
    inductor.freezing = True

    def case(name: str) -> Case:
        torch._dynamo.reset()  # noqa: SLF001  # each case by itself
        compiled, inputs = torch.compile(network(name), dynamic=False), tensors(name)
        return lambda: compiled(*inputs)

    return each_that_runs(job["cases"], case)


def onnxruntime_peer(job: Job) -> dict[str, Case]:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = job["threads"]
    options.inter_op_num_threads = 1

    def case(name: str) -> Case:
        file = str(Path(job["work"]) / "onnx" / f"{name}.onnx")
        session = ort.InferenceSession(file, options, providers=["CPUExecutionProvider"])
        arrays = zip(session.get_inputs(), CASES[name].arrays(), strict=True)
        inputs = {i.name: x for i, x in arrays}
        return lambda: session.run(None, inputs)[0]

    return each_that_runs(job["cases"], case)


PEERS = {
    "lumigen": lumigen_peer,
    "torch": torch_peer,
    "torch.compile": torch_compile_peer,
    "onnxruntime": onnxruntime_peer,
}
TUNED = "tuned"  # ours too: what a search of `--tune` seconds makes of all rows together
PEERS[TUNED] = lumigen_peer
NEEDS = {"onnxruntime": ("onnxruntime", "onnx")}


# --- what they are built from ---------------------------------------------------------------------


def emit(directory: Path, names: Sequence[str], tune: float | None = None) -> None:
    """A project with an entry for each case, compiled, with its Python module; searched for so many seconds."""
    import lumigen as lg
    from lumigen.make_project import compile_project

    nets = {name: CASES[name].make(libraries("lumigen")) for name in names}
    model = lg.Model("layers", nets)
    weights: dict[str, np.ndarray] = {}
    for name, net in nets.items():

        def infer(net: Any = net, **inputs: Any) -> dict[str, Any]:
            return {"result": net(*inputs.values())}

        infer.__name__ = name
        model.entry(**specs(lg, CASES[name]))(infer)
        state = network(name).state_dict()
        weights |= {f"{name}.{key}": value.numpy() for key, value in state.items()}
    known = set(model.weight_names().values())
    weights = {key: value for key, value in weights.items() if key in known}
    compile_project(
        model.trace(), directory=directory, weights=weights, force=True, tune=tune, isa="native"
    )


def specs(lg: Any, case: LayerCase) -> dict[str, Any]:
    """Of our inputs. A dim may be as small as a window with its edges, and twice what it is here."""

    def shape(x: Input) -> tuple[Any, ...]:
        return tuple(
            lg.Dim(f"n{axis}_{size}", 8, 2 * size, typical=size) if axis in case.dynamic else size
            for axis, size in enumerate(x.shape)
        )

    return {
        f"x{i}": lg.spec(*shape(x), dtype=lg.i64, range=(0, x.below))
        if x.below
        else lg.spec(*shape(x))
        for i, x in enumerate(case.inputs)
    }


def export(name: str, directory: Path) -> None:
    """The case as ONNX, where torch can write it."""
    import torch

    has_script = importlib.util.find_spec("onnxscript") is not None
    more = {"external_data": False, "verbose": False} if has_script else {"opset_version": 18}
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / f"{name}.onnx"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            inputs = tuple(tensors(name))
            torch.onnx.export(network(name), inputs, file, dynamo=has_script, **more)
    except Exception as e:  # noqa: BLE001  # what it cannot write, that peer does not run
        print(f"{name} is not written as ONNX: {str(e).splitlines()[0][:100]}", file=sys.stderr)


def reference(name: str) -> np.ndarray:
    """What torch gives in f64."""
    import torch

    inputs = [x.double() if x.is_floating_point() else x for x in tensors(name)]
    with torch.no_grad():
        return network(name).double()(*inputs).numpy()


# --- the driver -----------------------------------------------------------------------------------


def main() -> None:
    parser = harness.arguments(__doc__.splitlines()[0])
    parser.add_argument("--cases", help="only these, divided by commas")
    parser.add_argument(
        "--built", action="store_true", help="what the last run built is still good"
    )
    parser.add_argument("--tune", type=float, help="seconds: a searched project runs beside ours")
    options = parser.parse_args()
    names = options.cases.split(",") if options.cases else list(CASES)
    if unknown := sorted(set(names) - set(CASES)):
        raise SystemExit(f"No cases {', '.join(unknown)}. There are {', '.join(CASES)}.")
    rounds = options.rounds or (5 if options.quick else harness.ROUNDS)
    options.work.mkdir(parents=True, exist_ok=True)
    about = harness.machine()
    wanted = {"lumigen", *(options.peers.split(",") if options.peers else PEERS)}
    wanted -= {TUNED} if options.tune is None else set()
    peers = harness.available([p for p in PEERS if p in wanted], NEEDS)
    workers: list[Worker] = []
    try:
        prepare(workers, options, names, peers)
        tolerances = {name: CASES[name].tolerance for name in names}
        right = {name: reference(name) for name in names}
        differences = harness.compare(workers, right, tolerances)
        samples = harness.measure(workers, rounds, 0.05 if options.quick else 0.15)
    finally:
        harness.stop(workers)
    print("Layers, f32, random weights; all agree with torch in f64.")
    print(harness.describe(about, samples, rounds), end="\n\n")
    print("\n".join(table(samples, peers)))
    figures = harness.Table(samples, peers, {}, lambda _: 0.0)
    file = options.json or options.work / "layers.json"
    harness.write(file, about, figures, benchmark="layers", differences=differences)


def prepare(
    workers: list[Worker], options: Any, names: Sequence[str], peers: Sequence[str]
) -> None:
    """Add workers whose cases are built, compiled and called once."""
    project = options.work / "layers-cpu"
    if not options.built:
        emit(project, names)
        if TUNED in peers:
            emit(options.work / TUNED, names, options.tune)
        for name in names if "onnxruntime" in peers else ():
            export(name, options.work / "onnx")
    for peer in peers:
        own = options.work / TUNED if peer == TUNED else project
        more = {"project": str(own), "cases": list(names)}
        workers.append(harness.start(__file__, peer, 1, options.work, **more))
    harness.await_all(workers)


def table(samples: Sequence[Samples], peers: Sequence[str]) -> Iterator[str]:
    """Times, and those of the better peer over ours; rows below `BEHIND` are marked."""
    others = [p for p in peers if p != "lumigen"]
    yield (
        "| layer | ours, us | " + " | ".join(f"{p}, us" for p in others) + " | best peer / ours | |"
    )
    yield "| " + " | ".join(["---"] * (len(others) + 4)) + " |"
    for name in dict.fromkeys(s.case for s in samples):
        by = {s.peer: s for s in samples if s.case == name}
        ours, rest = by["lumigen"], [by[p] for p in others if p in by and p != TUNED]
        times = [f"{by[p].seconds * 1e6:.4g}" if p in by else "-" for p in others]
        share, mark = "-", ""
        if rest:
            least = harness.ratio(ours, min(rest, key=lambda s: s.seconds))
            share = f"{least.median:.2f} ({least.low:.2f}-{least.high:.2f})"
            mark = "behind" if least.median < BEHIND else ""
        row = [
            name + ("!" if ours.disturbed else ""),
            f"{ours.seconds * 1e6:.4g}",
            *times,
            share,
            mark,
        ]
        yield "| " + " | ".join(row) + " |"


if __name__ == "__main__":
    harness.serve(PEERS)
    main()
