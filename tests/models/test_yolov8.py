"""The YOLOv8 of the examples against its layers written down once more, and boxes removed one by one."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from small_models import EXAMPLES, Compiled, Interpreted, distance, example, save
from tiles import traced

import lumigen as lg
from lumigen import fast_lane
from lumigen.dtype import DType, bf16, f32
from lumigen.interp.graph import evaluate
from lumigen.lower import GRAPH_PASSES
from lumigen.lower.assemble import assemble
from lumigen.targets.cpu.device import CPU

TOLERANCE = {f32: 1e-4, bf16: 2e-2}
SIZE, CLASSES, MOST, OVERLAP = 64, 3, 40, 0.7
OPTIONS = {"size": str(SIZE), "most": str(MOST), "overlap": str(OVERLAP)}
IMAGES = np.random.default_rng(2).integers(0, 256, (2, SIZE, SIZE, 3), np.uint8)
# outputs of the layers of the backbone and of the neck, and how many bottlenecks those have that have some
WIDTHS = {0: 4, 1: 8, 2: 8, 3: 8, 4: 8, 5: 12, 6: 12, 7: 16, 8: 16, 9: 16, 12: 12, 15: 8}
WIDTHS |= {16: 8, 18: 12, 19: 12, 21: 16}
BOTTLENECKS = {2: 1, 4: 2, 6: 2, 8: 1, 12: 1, 15: 1, 18: 1, 21: 1}
INNER = {"cv2": 16, "cv3": 8}  # of the branches of the head


def inputs_of(w: dict[int, int]) -> dict[int, int]:
    """Of each layer that has outputs."""
    found = {0: 3, **{i: w[i - 1] for i in range(1, 10)}}
    found |= {12: w[9] + w[6], 15: w[12] + w[4], 16: w[15]}
    return found | {18: w[16] + w[12], 19: w[18], 21: w[19] + w[9]}


INPUTS = inputs_of(WIDTHS)

Tensors = dict[str, torch.Tensor]


def random_tensors() -> Tensors:
    """Under the names that ultralytics gives them."""
    torch.manual_seed(0)
    found: Tensors = {"model.22.dfl.conv.weight": torch.arange(16.0).reshape(1, 16, 1, 1)}

    def conv(name: str, inputs: int, outputs: int, size: int) -> None:
        deviation = 1.5 * (inputs * size * size) ** -0.5
        found[f"{name}.conv.weight"] = torch.randn(outputs, inputs, size, size) * deviation
        found[f"{name}.bn.weight"] = torch.rand(outputs) + 0.5
        found[f"{name}.bn.bias"] = torch.randn(outputs) * 0.1
        found[f"{name}.bn.running_mean"] = torch.randn(outputs) * 0.1
        found[f"{name}.bn.running_var"] = torch.rand(outputs) + 0.5

    for i, outputs in WIDTHS.items():
        at, inputs = f"model.{i}", INPUTS[i]
        if i in BOTTLENECKS:
            half = outputs // 2
            conv(f"{at}.cv1", inputs, outputs, 1)
            conv(f"{at}.cv2", (2 + BOTTLENECKS[i]) * half, outputs, 1)
            for k in range(BOTTLENECKS[i]):
                conv(f"{at}.m.{k}.cv1", half, half, 3)
                conv(f"{at}.m.{k}.cv2", half, half, 3)
        elif i == 9:
            conv(f"{at}.cv1", inputs, inputs // 2, 1)
            conv(f"{at}.cv2", 2 * inputs, outputs, 1)
        else:
            conv(at, inputs, outputs, 3)
    for i, layer in enumerate((15, 18, 21)):
        for branch, outputs in (("cv2", 64), ("cv3", CLASSES)):
            inputs, inner = WIDTHS[layer], INNER[branch]
            at = f"model.22.{branch}.{i}"
            conv(f"{at}.0", inputs, inner, 3)
            conv(f"{at}.1", inner, inner, 3)
            found[f"{at}.2.weight"] = torch.randn(outputs, inner, 1, 1)
            found[f"{at}.2.bias"] = torch.randn(outputs)
    return {name: t.float().double() for name, t in found.items()}


def places(w: Tensors) -> tuple[np.ndarray, np.ndarray]:
    """Boxes by corners and scores of all places, in float64."""

    def conv(name: str, x: torch.Tensor, stride: int = 1) -> torch.Tensor:
        weight = w[f"{name}.conv.weight"]
        x = F.conv2d(x, weight, stride=stride, padding=weight.shape[-1] // 2)
        parts = (w[f"{name}.bn.{p}"] for p in ("running_mean", "running_var", "weight", "bias"))
        return F.silu(F.batch_norm(x, *parts, eps=1e-3))

    def c2f(i: int, x: torch.Tensor, *, adds: bool) -> torch.Tensor:
        y = conv(f"model.{i}.cv1", x)
        kept = [y, y[:, y.shape[1] // 2 :]]
        for k in range(BOTTLENECKS[i]):
            at = f"model.{i}.m.{k}"
            kept.append(adds * kept[-1] + conv(f"{at}.cv2", conv(f"{at}.cv1", kept[-1])))
        return conv(f"model.{i}.cv2", torch.cat([kept[0], *kept[2:]], 1))

    def up(x: torch.Tensor) -> torch.Tensor:
        return x.repeat_interleave(2, 2).repeat_interleave(2, 3)

    x = torch.from_numpy(IMAGES.transpose(0, 3, 1, 2) / 255)
    x = c2f(2, conv("model.1", conv("model.0", x, 2), 2), adds=True)
    p3 = c2f(4, conv("model.3", x, 2), adds=True)
    p4 = c2f(6, conv("model.5", p3, 2), adds=True)
    p5 = c2f(8, conv("model.7", p4, 2), adds=True)
    pools = [conv("model.9.cv1", p5)]
    pools += [F.max_pool2d(pools[0], 2 * k + 1, 1, k) for k in (2, 4, 6)]
    p5 = conv("model.9.cv2", torch.cat(pools, 1))
    p4 = c2f(12, torch.cat([up(p5), p4], 1), adds=False)
    p3 = c2f(15, torch.cat([up(p4), p3], 1), adds=False)
    p4 = c2f(18, torch.cat([conv("model.16", p3, 2), p4], 1), adds=False)
    p5 = c2f(21, torch.cat([conv("model.19", p4, 2), p5], 1), adds=False)

    boxes, scores = [], []
    for i, grid in enumerate((p3, p4, p5)):
        found = []
        for branch in ("cv2", "cv3"):
            at = f"model.22.{branch}.{i}"
            y = conv(f"{at}.1", conv(f"{at}.0", grid))
            found.append(F.conv2d(y, w[f"{at}.2.weight"], w[f"{at}.2.bias"]).flatten(2).mT)
        sides = found[0].unflatten(-1, (4, 16)).softmax(-1) @ torch.arange(16.0).double()
        y, x = torch.meshgrid(*(torch.arange(n) + 0.5 for n in grid.shape[2:]), indexing="ij")
        middle = torch.stack([x, y], -1).reshape(-1, 2)
        corners = torch.cat([middle - sides[..., :2], middle + sides[..., 2:]], -1)
        boxes.append(corners * 8 * 2**i)
        scores.append(found[1].sigmoid())
    return torch.cat(boxes, 1).numpy(), torch.cat(scores, 1).numpy()


def overlap(a: np.ndarray, b: np.ndarray) -> float:
    """The common part of two boxes, of their union."""
    sides = np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])
    common = np.prod(sides.clip(min=0))
    return float(common / (np.prod(a[2:] - a[:2]) + np.prod(b[2:] - b[:2]) - common))


def removed(boxes: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """One box after the other, of a falling order."""
    stays = np.ones(len(boxes), bool)
    for i in range(len(boxes)):
        for k in range(i):
            if stays[k] and labels[k] == labels[i] and overlap(boxes[k], boxes[i]) > OVERLAP:
                stays[i] = False
    return ~stays


def check(context: Interpreted | Compiled, tensors: Tensors, tolerance: float) -> None:
    """Boxes and scores of the best places, in order; where two scores are as good as equal, either may come first."""
    boxes, scores = places(tensors)
    found = context.run("detect", image=IMAGES)
    gone = 0
    for image in range(len(IMAGES)):
        best = np.sort(scores[image].max(-1))[::-1][:MOST]
        labels, corners = found["labels"][image], found["boxes"][image]
        # each is a place whose score is that of its rank
        for rank in range(MOST):
            errors = np.abs(boxes[image] - corners[rank]).max(-1) / np.abs(boxes).max()
            place = int(errors.argmin())
            assert errors[place] < tolerance
            assert abs(scores[image, place].max() - best[rank]) < tolerance
            assert scores[image, place, labels[rank]] > best[rank] - 2 * tolerance
        is_removed = removed(corners, labels)
        kept = np.where(is_removed, 0, best)
        assert distance(found["scores"][image], kept) < tolerance
        gone += int(is_removed.sum())
    assert 0 < gone < MOST * len(IMAGES)


def chains(most: int) -> tuple[np.ndarray, np.ndarray]:
    """Boxes (4, most, 4) and labels (4, most): a chain of all, two that are intertwined, heaps, nothing but one box."""
    rng = np.random.default_rng(5)
    place = np.arange(most)
    one, two = (
        10.0 * place,
        10.0 * (place // 2),
    )  # of 100 pixels, of which a neighbour shares 82 percent
    heaps = rng.integers(0, 6, most) * 200 + rng.integers(0, 40, most)
    left = np.stack([one, two, heaps, np.zeros(most)])
    boxes = np.stack([left, left * 0, left + 100, left * 0 + 100], -1).astype(np.float32)
    labels = np.stack([place * 0, place % 2, rng.integers(0, 2, most), place * 0])
    return boxes, labels


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_boxes_are_removed_one_after_the_other(compiled: bool) -> None:
    """However long a chain is in which each box overlaps the next."""
    most = 100 if compiled else 40
    staying = runpy.run_path(str(EXAMPLES / "yolov8" / "model.py"))["staying"]
    batch = lg.Dim("batch", 1, 8, typical=2)
    inputs = {"boxes": lg.spec(batch, most, 4), "labels": lg.spec(batch, most, dtype=lg.i64)}
    graph = traced(lambda boxes, labels: staying(boxes, labels, OVERLAP), None, **inputs)
    boxes, labels = chains(most)
    given = {"boxes": boxes, "labels": labels}
    if compiled:
        for change in GRAPH_PASSES:
            graph = change(graph)
        lane = fast_lane.load(assemble((("entry", graph),), CPU), "-O1")
        found = lane.run("entry", given, {})["out"]
    else:
        found = evaluate(graph, given, {})["out"]
    for image in range(4):
        np.testing.assert_array_equal(found[image], ~removed(boxes[image], labels[image]))
    assert list(np.flatnonzero(found[0])) == list(range(0, most, 2))
    assert found[3].sum() == 1


def checkpoint(folder: Path) -> Tensors:
    tensors = random_tensors()
    save(folder, {name: t.numpy() for name, t in tensors.items()}, {})
    return tensors


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [f32, bf16], ids=str)
def test_the_graph_finds_the_boxes(dtype: DType, tmp_path: Path) -> None:
    tensors = checkpoint(tmp_path)
    context = Interpreted(*example("yolov8", tmp_path, **OPTIONS), dtype)
    check(context, tensors, 1e-5 if dtype is f32 else TOLERANCE[bf16])


@pytest.mark.slow
def test_the_kernels_find_the_boxes(tmp_path: Path) -> None:
    tensors = checkpoint(tmp_path)
    check(Compiled(*example("yolov8", tmp_path, **OPTIONS)), tensors, TOLERANCE[f32])
