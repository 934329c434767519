"""What is where in images: python detect.py PROJECT street.jpg [--labels coco.txt] [--confidence 0.25].

An image is a file that Pillow reads, or an array (height, width, 3) of u8 that numpy.save wrote. Each object is a line:
its label, how sure that is, and its box in pixels: left, top, right, bottom.
"""

import argparse
from pathlib import Path

import numpy as np

import lumigen as lg

GREY = 114  # of what is beside an image that is no square, as in training


def read_image(file):
    """(height, width, 3) of u8."""
    if Path(file).suffix == ".npy":
        return np.load(file)
    try:
        from PIL import Image  # noqa: PLC0415  # arrays need no Pillow
    except ImportError:
        raise SystemExit(
            f"`pip install pillow` reads {file}, or give an array of numpy.save"
        ) from None
    return np.asarray(Image.open(file).convert("RGB"))


def fitted(image, size):
    """The image in the middle of a square of `size` pixels; by how much it is scaled, and its left and top there."""
    height, width = image.shape[:2]
    scale = size / max(height, width)
    rows, columns = max(1, round(height * scale)), max(1, round(width * scale))
    if scale != 1:
        image = resized(image, rows, columns)
    left, top = (size - columns) // 2, (size - rows) // 2
    out = np.full((size, size, 3), GREY, np.uint8)
    out[top : top + rows, left : left + columns] = image
    return out, scale, (left, top)


def resized(image, rows, columns):
    """Each pixel lies between the four nearest of the image."""

    def weights(new, old):
        at = ((np.arange(new) + 0.5) * old / new - 0.5).clip(0, old - 1)
        low = np.floor(at).astype(int)
        return low, np.minimum(low + 1, old - 1), at - low

    (above, below, down), (before, behind, right) = (
        weights(new, old) for new, old in zip((rows, columns), image.shape, strict=False)
    )
    down, right = down[:, None, None], right[:, None]
    lines = image[above] * (1 - down) + image[below] * down
    return np.round(lines[:, before] * (1 - right) + lines[:, behind] * right).astype(np.uint8)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("project")
    parser.add_argument("images", nargs="+")
    parser.add_argument("--labels", help="a text with a line for each")
    parser.add_argument("--confidence", type=float, default=0.25)
    parser.add_argument("--threads", type=int, default=0)
    options = parser.parse_args()
    model = lg.load(options.project).Model()
    size = int(model.manifest["entries"][0]["inputs"][0]["shape"][1])
    labels = Path(options.labels).read_text().splitlines() if options.labels else []
    context = model.context(threads=options.threads)
    for file in options.images:
        image = read_image(file)
        square, scale, corner = fitted(image, size)
        found = context.detect(square[None])
        boxes, scores = (np.asarray(x[0], np.float64) for x in (found.boxes, found.scores))
        boxes = (boxes - [*corner, *corner]) / scale
        boxes = boxes.clip(0, [image.shape[1], image.shape[0]] * 2)
        print(file)
        for i in np.flatnonzero(scores > options.confidence):
            label = int(found.labels[0][i])
            name = labels[label] if label < len(labels) else label
            print(f"  {name} {scores[i]:.2f} {' '.join(f'{x:.0f}' for x in boxes[i])}")


if __name__ == "__main__":
    main()
