"""ResNets that classify images: 18, 34, 50, 101, 152 and their like, by the shapes of a checkpoint's tensors.

The attributes are called as torchvision calls its tensors, as do the checkpoints of timm; those of transformers
are renamed.
"""

import re

import lumigen as lg
from lumigen import functional, nn

# of each channel, in training on ImageNet, of values from 0 to 1
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
# what a config.json may say that changes what is computed: the values that are computed here
SUPPORTED = {
    "hidden_act": ("relu",),
    "downsample_in_first_stage": (False,),
    "downsample_in_bottleneck": (False,),
}
# in torchvision, in transformers
NAMES = (
    (r"conv1\.", "resnet.embedder.embedder.convolution."),
    (r"bn1\.", "resnet.embedder.embedder.normalization."),
    (r"fc\.", "classifier.1."),
    (r"layer(\d+)\.(\d+)\.conv(\d)\.", "resnet.encoder.stages.{}.layers.{}.layer.{}.convolution."),
    (r"layer(\d+)\.(\d+)\.bn(\d)\.", "resnet.encoder.stages.{}.layers.{}.layer.{}.normalization."),
    (
        r"layer(\d+)\.(\d+)\.downsample\.0\.",
        "resnet.encoder.stages.{}.layers.{}.shortcut.convolution.",
    ),
    (
        r"layer(\d+)\.(\d+)\.downsample\.1\.",
        "resnet.encoder.stages.{}.layers.{}.shortcut.normalization.",
    ),
)


def renamed(name):
    """The name in a checkpoint of transformers, which counts stages and convolutions from 0."""
    for ours, theirs in NAMES:
        if found := re.match(ours, name):
            stage, block, number = (*map(int, found.groups()), 0, 0, 0)[:3]
            return theirs.format(stage - 1, block, number - 1) + name[found.end() :]
    return name


class Block(nn.Module):
    """Convolutions with their norms; what came before is added, brought to the same shape where it has another.

    `shapes`: (outputs, inputs of a group, height, width) of each convolution.
    """

    def __init__(self, inputs, shapes, stride):
        # the first that looks at neighbours takes steps
        steps = next(i for i, (_, _, height, _) in enumerate(shapes) if height > 1)
        self.count, came = len(shapes), inputs
        for i, (outputs, of_group, size, _) in enumerate(shapes):
            step = stride if i == steps else 1
            conv = nn.Conv2d(
                came, outputs, size, step, size // 2, groups=came // of_group, bias=False
            )
            setattr(self, f"conv{i + 1}", conv)
            setattr(self, f"bn{i + 1}", nn.BatchNorm2d(outputs))
            came = outputs
        self.downsample = nn.Identity()
        if stride != 1 or inputs != came:
            conv = nn.Conv2d(inputs, came, 1, stride, bias=False)
            self.downsample = nn.Sequential(conv, nn.BatchNorm2d(came))

    def forward(self, x):
        y = x
        for i in range(1, self.count + 1):
            y = getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(y))
            y = y.relu() if i < self.count else y
        return (y + self.downsample(x)).relu()


class ResNet(nn.Module):
    """`stages`: of each stage its blocks, of each block the shapes of its convolutions."""

    def __init__(self, first, stages, labels):
        channels = first[0]
        self.conv1 = nn.Conv2d(first[1], channels, first[2], 2, first[2] // 2, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.count = len(stages)
        for i, blocks in enumerate(stages):
            made = []
            for k, shapes in enumerate(blocks):
                made.append(Block(channels, shapes, 2 if i and not k else 1))
                channels = shapes[-1][0]
            setattr(self, f"layer{i + 1}", nn.Sequential(*made))
        self.fc = nn.Linear(channels, labels)

    def forward(self, x):
        """(batch, channel, height, width) -> (batch, labels)."""
        x = self.bn1(self.conv1(x)).relu()
        x = functional.max_pool2d(x, 3, 2, 1)
        for i in range(self.count):
            x = getattr(self, f"layer{i + 1}")(x)
        return self.fc(x.mean((2, 3)))


def shapes_of(weights, rename):
    """Those of the convolutions, by stage and block."""
    stages = []
    while rename(f"layer{len(stages) + 1}.0.conv1.weight") in weights:
        blocks = []
        while rename(f"layer{len(stages) + 1}.{len(blocks)}.conv1.weight") in weights:
            at = f"layer{len(stages) + 1}.{len(blocks)}"
            names = [rename(f"{at}.conv{i}.weight") for i in (1, 2, 3)]
            blocks.append([weights.shape(name) for name in names if name in weights])
        stages.append(blocks)
    return stages


def build(weights, max_batch: int = 16, size: int = 224):
    """Images are `size` pixels high and wide."""
    rename = str if "conv1.weight" in weights else renamed
    if rename is renamed:
        weights.config_for("resnet", supported=SUPPORTED)
    first = weights.shape(rename("conv1.weight"))
    net = ResNet(first, shapes_of(weights, rename), weights.shape(rename("fc.bias"))[0])
    model = lg.Model("resnet", net, rename=rename)

    @model.entry(
        image=lg.spec(lg.Dim("batch", 1, max_batch, typical=1), size, size, 3, dtype=lg.u8)
    )
    def classify(image):
        """Pixels as files have them, 0 to 255."""
        channels = image.permute(0, 3, 1, 2).float() / 255
        statistics = enumerate(zip(MEAN, DEVIATION, strict=True))
        x = lg.stack([(channels[:, c] - m) / d for c, (m, d) in statistics], 1)
        return {"logits": net(x)}

    return model
