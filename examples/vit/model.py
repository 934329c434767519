"""Vision transformers that classify images, ViT and DeiT, configured by their config.json.

The attributes are called as the checkpoint of Hugging Face calls its tensors, which is all that binds them.
"""

import json

import lumigen as lg
from lumigen import functional, nn


class PatchEmbeddings(nn.Module):
    def __init__(self, config):
        hidden, patch = config["hidden_size"], config["patch_size"]
        self.projection = nn.Conv2d(config["num_channels"], hidden, patch, stride=patch)

    def forward(self, x):
        return self.projection(x).flatten(2).transpose(1, 2)  # (batch, patches, hidden)


class Embeddings(nn.Module):
    def __init__(self, config):
        hidden = config["hidden_size"]
        patches = (config["image_size"] // config["patch_size"]) ** 2
        self.cls_token = nn.Parameter(1, 1, hidden)
        self.is_distilled = config.get("model_type") == "deit"
        if self.is_distilled:
            self.distillation_token = nn.Parameter(1, 1, hidden)
        self.position_embeddings = nn.Parameter(1, patches + 1 + self.is_distilled, hidden)
        self.patch_embeddings = PatchEmbeddings(config)

    def forward(self, x):
        tokens = [self.cls_token, *([self.distillation_token] if self.is_distilled else [])]
        first = [token.expand(x.shape[0], -1, -1) for token in tokens]
        return lg.cat([*first, self.patch_embeddings(x)], 1) + self.position_embeddings


class SelfAttention(nn.Module):
    def __init__(self, config):
        hidden, bias = config["hidden_size"], config.get("qkv_bias", True)
        self.heads = config["num_attention_heads"]
        self.query = nn.Linear(hidden, hidden, bias=bias)
        self.key = nn.Linear(hidden, hidden, bias=bias)
        self.value = nn.Linear(hidden, hidden, bias=bias)

    def forward(self, x):
        def split(y):  # (batch, patches, hidden) -> (batch, heads, patches, hidden / heads)
            return y.unflatten(-1, (self.heads, -1)).transpose(1, 2)

        q, k, v = split(self.query(x)), split(self.key(x)), split(self.value(x))
        return functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)


class Dense(nn.Module):
    """A linear layer under the name that checkpoints give it."""

    def __init__(self, inputs, outputs):
        self.dense = nn.Linear(inputs, outputs)

    def forward(self, x):
        return self.dense(x)


class Attention(nn.Module):
    def __init__(self, config):
        self.attention = SelfAttention(config)
        self.output = Dense(config["hidden_size"], config["hidden_size"])

    def forward(self, x):
        return self.output(self.attention(x))


class Layer(nn.Module):
    def __init__(self, config):
        hidden, inner, eps = (
            config[k] for k in ("hidden_size", "intermediate_size", "layer_norm_eps")
        )
        self.layernorm_before = nn.LayerNorm(hidden, eps=eps)
        self.attention = Attention(config)
        self.layernorm_after = nn.LayerNorm(hidden, eps=eps)
        self.intermediate = Dense(hidden, inner)
        self.output = Dense(inner, hidden)

    def forward(self, x):
        x = x + self.attention(self.layernorm_before(x))
        return x + self.output(functional.gelu(self.intermediate(self.layernorm_after(x))))


class Encoder(nn.Module):
    def __init__(self, config):
        self.layer = nn.ModuleList([Layer(config) for _ in range(config["num_hidden_layers"])])

    def forward(self, x):
        for layer in self.layer:
            x = layer(x)
        return x


class ViT(nn.Module):
    def __init__(self, config):
        self.embeddings = Embeddings(config)
        self.encoder = Encoder(config)
        self.layernorm = nn.LayerNorm(config["hidden_size"], eps=config["layer_norm_eps"])

    def forward(self, x):
        return self.layernorm(self.encoder(self.embeddings(x)))


class Classifier(nn.Module):
    def __init__(self, config, labels):
        self.vit = ViT(config)
        self.classifier = nn.Linear(config["hidden_size"], labels)

    def forward(self, x):
        """(batch, channel, height, width) -> (batch, labels), from the last state of the first token."""
        return self.classifier(self.vit(x)[:, 0])


class TaughtClassifier(nn.Module):
    def __init__(self, config, labels):
        self.vit = ViT(config)
        self.cls_classifier = nn.Linear(config["hidden_size"], labels)
        self.distillation_classifier = nn.Linear(config["hidden_size"], labels)

    def forward(self, x):
        """The mean of what the first token says, and the one that had a teacher."""
        states = self.vit(x)
        return (self.cls_classifier(states[:, 0]) + self.distillation_classifier(states[:, 1])) / 2


def statistics(weights):
    """Mean and deviation of each channel in training, of values from 0 to 1."""
    folder = weights.path if weights.path.is_dir() else weights.path.parent
    file = folder / "preprocessor_config.json"
    said = json.loads(file.read_text()) if file.is_file() else {}
    return said.get("image_mean", [0.5] * 3), said.get("image_std", [0.5] * 3)


def build(weights, max_batch: int = 16):
    config = weights.config_for("vit", "deit", supported={"hidden_act": ("gelu",)})
    is_taught = "distillation_classifier.bias" in weights
    labels = weights.shape("cls_classifier.bias" if is_taught else "classifier.bias")[0]
    net = (TaughtClassifier if is_taught else Classifier)(config, labels)

    def stored(name):
        return name.replace("vit.", "deit.", 1) if net.vit.embeddings.is_distilled else name

    model = lg.Model("vit", net, rename=stored)
    mean, deviation = statistics(weights)
    size, batch = config["image_size"], lg.Dim("batch", 1, max_batch, typical=1)

    @model.entry(image=lg.spec(batch, size, size, config["num_channels"], dtype=lg.u8))
    def classify(image):
        """Pixels as files have them, 0 to 255."""
        channels = image.permute(0, 3, 1, 2).float() / 255
        x = lg.stack(
            [
                (channels[:, c] - m) / d
                for c, (m, d) in enumerate(zip(mean, deviation, strict=True))
            ],
            1,
        )
        return {"logits": net(x)}

    return model
