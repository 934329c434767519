"""YOLOv8 that detects objects, in all its sizes, by the names and shapes of a checkpoint's tensors.

The attributes are called as ultralytics calls its tensors, by the number of each layer, which is all that binds them.
"""

import lumigen as lg
from lumigen import functional, nn

BINS = 16  # a side of a box is a distribution over so many distances, in steps of the grid
STRIDES = (8, 16, 32)  # pixels in a step of each grid


class Conv(nn.Module):
    """`weight`: the shape of its weights, (outputs, inputs, height, width)."""

    def __init__(self, weight, stride=1):
        outputs, inputs, size, _ = weight
        self.conv = nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False)
        self.bn = nn.BatchNorm2d(outputs, eps=1e-3)

    def forward(self, x):
        return functional.silu(self.bn(self.conv(x)))


class Bottleneck(nn.Module):
    def __init__(self, shape, at, adds):
        self.cv1, self.cv2 = Conv(shape(f"{at}.cv1")), Conv(shape(f"{at}.cv2"))
        self.adds = adds

    def forward(self, x):
        y = self.cv2(self.cv1(x))
        return x + y if self.adds else y


class C2f(nn.Module):
    """Half of the channels goes through bottlenecks; what each leaves is kept."""

    def __init__(self, shape, at, adds):
        self.cv1, self.cv2 = Conv(shape(f"{at}.cv1")), Conv(shape(f"{at}.cv2"))
        half, kept = shape(f"{at}.cv1")[0] // 2, shape(f"{at}.cv2")[1]
        count = kept // half - 2
        self.m = nn.ModuleList([Bottleneck(shape, f"{at}.m.{i}", adds) for i in range(count)])

    def forward(self, x):
        parts = list(self.cv1(x).chunk(2, 1))
        for bottleneck in self.m:
            parts.append(bottleneck(parts[-1]))
        return self.cv2(lg.cat(parts, 1))


class SPPF(nn.Module):
    def __init__(self, shape, at):
        self.cv1, self.cv2 = Conv(shape(f"{at}.cv1")), Conv(shape(f"{at}.cv2"))

    def forward(self, x):
        parts = [self.cv1(x)]
        for _ in range(3):
            parts.append(functional.max_pool2d(parts[-1], 5, 1, 2))
        return self.cv2(lg.cat(parts, 1))


class DFL(nn.Module):
    """(batch, 4 * BINS, places) -> (batch, 4, places): means of the distributions; the weights are 0 to BINS - 1."""

    def __init__(self):
        self.conv = nn.Conv2d(BINS, 1, 1, bias=False)

    def forward(self, x):
        odds = x.unflatten(1, (4, BINS)).transpose(1, 2).softmax(1)  # (batch, BINS, 4, places)
        return self.conv(odds).squeeze(1)


class Detect(nn.Module):
    """Grids of features -> boxes (batch, places, 4) by corners, in pixels, and scores (batch, places, classes)."""

    def __init__(self, shape, at):
        def branch(name):
            first, second = Conv(shape(f"{name}.0")), Conv(shape(f"{name}.1"))
            outputs, inputs, _, _ = shape(f"{name}.2")
            return nn.Sequential(first, second, nn.Conv2d(inputs, outputs, 1))

        self.cv2 = nn.ModuleList([branch(f"{at}.cv2.{i}") for i in range(3)])
        self.cv3 = nn.ModuleList([branch(f"{at}.cv3.{i}") for i in range(3)])
        self.dfl = DFL()

    def forward(self, grids):
        boxes, scores = [], []
        for x, sides, classes, stride in zip(grids, self.cv2, self.cv3, STRIDES, strict=True):
            rows, columns = x.shape[2:]
            x_of, y_of = (lg.arange(n).float() + 0.5 for n in (columns, rows))
            middle = lg.stack([x_of.expand(rows, -1), y_of.unsqueeze(-1).expand(-1, columns)])
            to_corner = self.dfl(sides(x).flatten(2))  # left, top, right, bottom
            corners = [middle.flatten(1) - to_corner[:, :2], middle.flatten(1) + to_corner[:, 2:]]
            boxes.append(lg.cat(corners, 1).transpose(1, 2) * stride)
            scores.append(classes(x).flatten(2).transpose(1, 2).sigmoid())
        return lg.cat(boxes, 1), lg.cat(scores, 1)


class YOLOv8(nn.Module):
    """`shape` gives the shape of the weights of a convolution by its name."""

    def __init__(self, shape):
        def up():
            return nn.Upsample(scale_factor=2, mode="nearest")

        layers = [Conv(shape("0"), 2)]
        for i in (1, 3, 5, 7):
            layers += [Conv(shape(f"{i}"), 2), C2f(shape, f"{i + 1}", adds=True)]
        layers += [SPPF(shape, "9"), up(), nn.Identity(), C2f(shape, "12", adds=False)]
        layers += [up(), nn.Identity(), C2f(shape, "15", adds=False)]
        for i in (16, 19):
            layers += [Conv(shape(f"{i}"), 2), nn.Identity(), C2f(shape, f"{i + 2}", adds=False)]
        self.model = nn.ModuleList([*layers, Detect(shape, "22")])

    def forward(self, x):
        """(batch, channel, height, width) -> boxes and scores of all places of three grids."""
        kept, layers = {}, self.model
        for i in range(10):
            x = kept[i] = layers[i](x)
        middle = layers[12](lg.cat([layers[10](x), kept[6]], 1))
        fine = layers[15](lg.cat([layers[13](middle), kept[4]], 1))
        middle = layers[18](lg.cat([layers[16](fine), middle], 1))
        coarse = layers[21](lg.cat([layers[19](middle), x], 1))
        return layers[22]([fine, middle, coarse])


def shapes_in(weights):
    """shape(name) of the weights of the convolution that ultralytics calls so."""

    def shape(name):
        ends = (f"model.{name}.conv.weight", f"model.{name}.weight")
        return weights.shape(next((end for end in ends if end in weights), ends[0]))

    return shape


def leading(boxes, scores, most):
    """Of each image the `most` places whose best scores are greatest, in order: boxes, scores, labels."""
    best, label = scores.max(-1)  # (batch, places)
    best, order = best.topk(most)
    corners = boxes.gather(1, order.unsqueeze(-1).expand(-1, -1, 4))
    return corners, best, label.gather(1, order)


def staying(boxes, labels, overlap):
    """(batch, most): which boxes of a falling order stay where each removes those of its label that it overlaps.

    `overlap`: the least share of the union that removes. A box that is removed removes none itself, so that they come
    one after the other.
    """
    low = lg.maximum(boxes[:, :, None, :2], boxes[:, None, :, :2])
    high = lg.minimum(boxes[:, :, None, 2:], boxes[:, None, :, 2:])
    width, height = (high - low).clamp(min=0).unbind(-1)
    sides = boxes[..., 2:] - boxes[..., :2]
    area = sides[..., 0] * sides[..., 1]
    common = width * height
    union = area.unsqueeze(-1) + area.unsqueeze(1) - common
    place = lg.arange(boxes.shape[1])
    removes = (common > overlap * union) & (labels.unsqueeze(-1) == labels.unsqueeze(1))
    removes = removes & (place.unsqueeze(-1) < place)  # (batch, the one, the other)

    def look(stays, box):
        at, others = box
        return stays & ~(stays.index_select(1, at.reshape(1)) & others), None

    stays, _ = lg.scan(look, labels >= 0, (place, removes.transpose(0, 1)))
    return stays


def build(
    weights,
    max_batch: int = 8,
    size: int = 640,
    most: int = 300,
    overlap: float = 0.7,
):
    """Of images of `size` pixels the `most` likeliest boxes; those that overlap a likelier one are removed."""
    net = YOLOv8(shapes_in(weights))
    model = lg.Model("yolov8", net)

    @model.entry(
        image=lg.spec(lg.Dim("batch", 1, max_batch, typical=1), size, size, 3, dtype=lg.u8)
    )
    def detect(image):
        """Pixels as files have them, 0 to 255; boxes by corners in pixels, a score of 0 where one was removed."""
        boxes, scores = net(image.permute(0, 3, 1, 2).float() / 255)
        boxes, scores, labels = leading(boxes, scores, most)
        stays = staying(boxes, labels, overlap)
        return {"boxes": boxes, "scores": lg.where(stays, scores, 0.0), "labels": labels}

    return model
