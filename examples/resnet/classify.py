"""What images show, by a built project: python classify.py PROJECT cat.jpg dog.npy [--labels config.json] [--top 5].

An image is a file that Pillow reads, or an array (height, width, 3) of u8 that numpy.save wrote.
"""

import argparse
import json
from pathlib import Path

import numpy as np

import lumigen as lg


def read_image(file, size, shown):
    """(size, size, 3) of u8: the middle of the image; its shorter side is `shown` of the part that is taken."""
    if Path(file).suffix == ".npy":
        image = np.load(file)
        if image.shape == (size, size, 3) and image.dtype == np.uint8:
            return image
    else:
        image = None
    try:
        from PIL import Image  # noqa: PLC0415  # what is of the right size needs no Pillow
    except ImportError:
        raise SystemExit(
            f"{file} is no u8 array ({size}, {size}, 3): `pip install pillow` reads and scales others"
        ) from None
    opened = Image.open(file) if image is None else Image.fromarray(image)
    opened = opened.convert("RGB")
    scale = size / shown / min(opened.size)
    opened = opened.resize([max(size, round(scale * side)) for side in opened.size])
    left, top = ((side - size) // 2 for side in opened.size)
    return np.asarray(opened.crop((left, top, left + size, top + size)))


def read_labels(file):
    """The names of the labels, by number: of a config.json, or the lines of a text."""
    text = Path(file).read_text()
    if Path(file).suffix == ".json":
        return {int(k): name for k, name in json.loads(text)["id2label"].items()}
    return dict(enumerate(text.splitlines()))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("project")
    parser.add_argument("images", nargs="+")
    parser.add_argument("--labels", help="a config.json, or a text with a line for each")
    parser.add_argument("--top", type=int, default=5)
    parser.add_argument("--shown", type=float, default=0.875, help="of the shorter side")
    parser.add_argument("--threads", type=int, default=0)
    options = parser.parse_args()
    model = lg.load(options.project).Model()
    (entry,) = model.manifest["entries"]
    batch, size, _, _ = entry["inputs"][0]["shape"]
    labels = read_labels(options.labels) if options.labels else {}
    most = next(d["max"] for d in entry["dims"] if d["name"] == batch)
    context = model.context(threads=options.threads)
    for start in range(0, len(options.images), most):
        files = options.images[start : start + most]
        images = np.stack([read_image(file, int(size), options.shown) for file in files])
        logits = np.asarray(context.classify(images), np.float64)
        odds = np.exp(logits - logits.max(-1, keepdims=True))
        odds /= odds.sum(-1, keepdims=True)
        for file, row in zip(files, odds, strict=True):
            print(file)
            for label in row.argsort()[::-1][: options.top]:
                print(f"  {row[label]:6.1%}  {labels.get(int(label), label)}")


if __name__ == "__main__":
    main()
