"""Whisper, configured by its config.json: speech to text, from samples of sound to the next token.

The attributes are called as the checkpoint of Hugging Face calls its tensors, which is all that binds them.
`listen` leaves keys and values of the sound in the context's caches, which `prefill` and `decode` read, as they do
the caches of their own.
"""

import math
from typing import Literal

import lumigen as lg
from lumigen import functional, nn

RATE, WINDOW, STEP = (
    16000,
    400,
    160,
)  # samples: in a second, in a window, from one window to the next


def mel_filters(bins, count, dtype):
    """(bins, count): triangles over frequencies up to RATE / 2, of the same area.

    Their corners are equally far apart in mel, which is linear up to 1 kHz and logarithmic above (Slaney).
    """
    top = 15 + math.log(RATE / 2 / 1000) * 27 / math.log(6.4)
    mels = lg.arange(count + 2).to(dtype) * (top / (count + 1))
    above = 1000 * ((mels - 15) * (math.log(6.4) / 27)).exp()
    corners = lg.where(mels < 15, mels * (200 / 3), above)
    low, middle, high = corners[:-2], corners[1:-1], corners[2:]
    at = (lg.arange(bins).to(dtype) * (RATE / 2 / (bins - 1))).unsqueeze(-1)
    rising, falling = (at - low) / (middle - low), (high - at) / (high - middle)
    return lg.minimum(rising, falling).clamp(min=0) * (2 / (high - low))


def powers_of(frames):
    """(count, WINDOW) -> powers at frequencies 0, 1, .. WINDOW / 4, and at WINDOW / 2, one less, .. WINDOW / 4.

    A fourth of the products of a Fourier transform are enough. Samples n and WINDOW - n meet the same cosine and
    opposite sines. At frequencies k and WINDOW / 2 - k every second sample meets the same number, up to the sign, and
    the others its negative.
    """
    half, quarter = WINDOW // 2, WINDOW // 4
    turns = lg.arange(half + 1).unsqueeze(-1) * lg.arange(quarter + 1) % WINDOW
    angles = turns.to(frames.dtype) * (
        2 * math.pi / WINDOW
    )  # turns are exact, as angles would not be
    cosines, sines = angles.cos(), angles.sin()
    window = (1 - cosines[:, 1]) / 2  # of Hann
    first = frames[:, : half + 1] * window
    mirrored = functional.pad(frames[:, half + 1 :].flip(1), (1, 1)) * window
    sums, differences = first + mirrored, first - mirrored
    real, other_real = (sums[:, i::2] @ cosines[i::2] for i in (0, 1))
    imaginary, other_imaginary = (differences[:, i::2] @ sines[i::2] for i in (0, 1))
    low = (real + other_real).square() + (imaginary + other_imaginary).square()
    high = (real - other_real).square() + (imaginary - other_imaginary).square()
    return low, high


def log_mel(audio, count):
    """(samples,) -> (count, samples / STEP): powers on a logarithmic scale of 8 decades below the greatest.

    In the samples' dtype, f64 or f32: a model held in 16 bits must not lose what is quiet beside what is loud.
    """
    frames = functional.pad(audio.unsqueeze(0), (WINDOW // 2, WINDOW // 2), mode="reflect")
    frames = frames.squeeze(0).contiguous().unfold(0, WINDOW, STEP)[:-1]
    filters, quarter = mel_filters(WINDOW // 2 + 1, count, audio.dtype), WINDOW // 4
    low, high = powers_of(frames)
    powers = low @ filters[: quarter + 1] + high[:, :quarter] @ filters.flip(0)[:quarter]
    decades = powers.clamp(min=1e-10).log10()
    decades = lg.maximum(decades, decades.amax() - 8)
    return ((decades + 4) / 4).transpose(0, 1).float()


class Attention(nn.Module):
    def __init__(self, width, heads):
        self.heads = heads
        self.k_proj = nn.Linear(width, width, bias=False)
        self.v_proj = nn.Linear(width, width)
        self.q_proj = nn.Linear(width, width)
        self.out_proj = nn.Linear(width, width)

    def split(self, x):
        """(sequence, width) -> (heads, sequence, width / heads)."""
        return x.unflatten(-1, (self.heads, -1)).transpose(0, 1)

    def forward(self, x, keys, values, seen=None):
        q = self.split(self.q_proj(x))
        scores = q @ keys.transpose(-1, -2) * q.shape[-1] ** -0.5
        if seen is not None:
            scores = scores.masked_fill(~seen, float("-inf"))
        read = scores.softmax(-1) @ values
        return self.out_proj(read.transpose(0, 1).flatten(1))


class Layer(nn.Module):
    """What the layers of encoder and decoder have in common."""

    def __init__(self, width, heads, inner):
        self.self_attn = Attention(width, heads)
        self.self_attn_layer_norm = nn.LayerNorm(width)
        self.fc1 = nn.Linear(width, inner)
        self.fc2 = nn.Linear(inner, width)
        self.final_layer_norm = nn.LayerNorm(width)

    def widened(self, x):
        return x + self.fc2(functional.gelu(self.fc1(self.final_layer_norm(x))))


class EncoderLayer(Layer):
    def forward(self, x):
        attend, y = self.self_attn, self.self_attn_layer_norm(x)
        keys, values = attend.split(attend.k_proj(y)), attend.split(attend.v_proj(y))
        return self.widened(x + attend(y, keys, values))


class Encoder(nn.Module):
    def __init__(self, config):
        width, positions = config["d_model"], config["max_source_positions"]
        self.conv1 = nn.Conv1d(config["num_mel_bins"], width, 3, padding=1)
        self.conv2 = nn.Conv1d(width, width, 3, stride=2, padding=1)
        self.embed_positions = nn.Embedding(positions, width)
        heads, inner = config["encoder_attention_heads"], config["encoder_ffn_dim"]
        count = config["encoder_layers"]
        self.layers = nn.ModuleList([EncoderLayer(width, heads, inner) for _ in range(count)])
        self.layer_norm = nn.LayerNorm(width)

    def forward(self, features):
        """(mels, frames) -> (frames / 2, width)."""
        x = functional.gelu(self.conv1(features.unsqueeze(0)))
        x = functional.gelu(self.conv2(x)).squeeze(0).transpose(0, 1)
        x = x + self.embed_positions.weight
        for layer in self.layers:
            x = layer(x)
        return self.layer_norm(x)


class DecoderLayer(Layer):
    """`heard` and `said` are the states of both attentions: keys and values of the sound and of the text."""

    def __init__(self, config, number):
        width, heads = config["d_model"], config["decoder_attention_heads"]
        super().__init__(width, heads, config["decoder_ffn_dim"])
        self.encoder_attn = Attention(width, heads)
        self.encoder_attn_layer_norm = nn.LayerNorm(width)

        def states(name, length):
            shape = (heads, length, width // heads)
            names = (f"layers.{number}.{name}.{what}" for what in ("keys", "values"))
            return [nn.State(each, shape) for each in names]

        self.heard = states("encoder_attn", config["max_source_positions"])
        self.said = states("self_attn", config["max_target_positions"])

    def listen(self, hidden):
        attend, (keys, values) = self.encoder_attn, self.heard
        keys[...] = attend.split(attend.k_proj(hidden))
        values[...] = attend.split(attend.v_proj(hidden))

    def forward(self, x, position):
        n, (keys, values) = x.shape[0], self.said
        attend, y = self.self_attn, self.self_attn_layer_norm(x)
        keys[:, position : position + n] = attend.split(attend.k_proj(y))
        values[:, position : position + n] = attend.split(attend.v_proj(y))
        seen = lg.arange(keys.shape[1]) <= (lg.arange(n) + position).unsqueeze(-1)
        x = x + attend(y, keys, values, seen)
        x = x + self.encoder_attn(self.encoder_attn_layer_norm(x), *self.heard)
        return self.widened(x)


class Decoder(nn.Module):
    def __init__(self, config):
        width = config["d_model"]
        self.scale = width**0.5 if config.get("scale_embedding") else 1.0
        self.embed_tokens = nn.Embedding(config["vocab_size"], width)
        self.embed_positions = nn.Embedding(config["max_target_positions"], width)
        count = config["decoder_layers"]
        self.layers = nn.ModuleList([DecoderLayer(config, i) for i in range(count)])
        self.layer_norm = nn.LayerNorm(width)

    def forward(self, ids, position):
        """(tokens,), () -> (vocabulary,): the logits behind the last token."""
        positions = lg.arange(ids.shape[0]) + position
        x = self.embed_tokens(ids) * self.scale + self.embed_positions(positions)
        for layer in self.layers:
            x = layer(x, position)
        return functional.linear(self.layer_norm(x[-1:]), self.embed_tokens.weight).squeeze(0)


class Whisper(nn.Module):
    def __init__(self, config):
        self.encoder = Encoder(config)
        self.decoder = Decoder(config)


def build(weights, prefill: int = 64, sound: Literal["f64", "f32"] = "f64"):
    """`prefill` tokens of a text come at a time. Samples of the sound are f32 for GPUs that have no f64."""
    supported = {"activation_function": ("gelu",), "tie_word_embeddings": (True,)}
    config = weights.config_for("whisper", supported=supported)
    net = Whisper(config)
    model = lg.Model("whisper", net, prefix="model.")
    samples = config["max_source_positions"] * 2 * STEP  # two frames for each position
    length = config["max_target_positions"]
    token = (0, config["vocab_size"] - 1)
    tokens = lg.Dim("tokens", 1, min(prefill, length), typical=4)

    def text(count):
        """So many tokens, and the position of the first: the text has room for them behind it."""
        position = lg.spec(dtype=lg.i64, range=(0, length - count))
        return {"ids": lg.spec(count, dtype=lg.i64, range=token), "position": position}

    @model.entry(audio=lg.spec(samples, dtype={"f64": lg.f64, "f32": lg.f32}[sound]))
    def listen(audio):
        """Samples from -1 to 1, 16000 a second; the states of the encoder."""
        hidden = net.encoder(log_mel(audio, config["num_mel_bins"]))
        for layer in net.decoder.layers:
            layer.listen(hidden)
        return {"hidden": hidden}

    @model.entry(**text(tokens))
    def prefill(ids, position):
        return {"logits": net.decoder(ids, position)}

    @model.entry(**text(1))
    def decode(ids, position):
        return {"logits": net.decoder(ids, position)}

    return model
