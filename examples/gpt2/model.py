"""GPT-2, configured by its config.json or GGUF: learned positions, cached keys.

The attributes are called as the checkpoint of Hugging Face calls its tensors, which is all that binds them.
`prefill` takes several tokens of a text, `decode` one; both leave their keys and values in the context's caches.
"""

import numpy as np

import lumigen as lg
from lumigen import functional, nn

# the values that are computed here, where others would change what is computed
SUPPORTED = {
    "activation_function": ("gelu_new", "gelu_pytorch_tanh"),
    "add_cross_attention": (False,),
}


class Conv1D(nn.Module):
    """A linear layer whose weight is (inputs, outputs), as GPT-2's checkpoints have it."""

    def __init__(self, inputs, outputs):
        self.weight = nn.Parameter(inputs, outputs)
        self.bias = nn.Parameter(outputs)

    def forward(self, x):
        return x @ self.weight + self.bias


class Attention(nn.Module):
    def __init__(self, config, layer, length):
        hidden, self.heads = config["n_embd"], config["n_head"]
        self.length = length
        self.scale = (hidden // self.heads) ** -0.5
        if not config.get("scale_attn_weights", True):
            self.scale = 1.0
        if config.get("scale_attn_by_inverse_layer_idx", False):
            self.scale /= layer + 1
        self.c_attn = Conv1D(hidden, 3 * hidden)
        self.c_proj = Conv1D(hidden, hidden)
        shape = (self.heads, length, hidden // self.heads)
        self.keys = nn.State(f"h.{layer}.attn.keys", shape)
        self.values = nn.State(f"h.{layer}.attn.values", shape)

    def forward(self, x, position):
        n = x.shape[0]
        # (sequence, 3 * heads * width) -> three of (heads, sequence, width)
        q, k, v = (
            y.unflatten(-1, (self.heads, -1)).transpose(0, 1) for y in self.c_attn(x).chunk(3, -1)
        )
        self.keys[:, position : position + n] = k
        self.values[:, position : position + n] = v
        seen = lg.arange(self.length) <= (lg.arange(n) + position).unsqueeze(-1)
        scores = q @ self.keys.transpose(-1, -2) * self.scale
        weights = scores.masked_fill(~seen, float("-inf")).softmax(-1)
        return self.c_proj((weights @ self.values).transpose(0, 1).flatten(1))


class MLP(nn.Module):
    def __init__(self, config):
        hidden = config["n_embd"]
        inner = config.get("n_inner") or 4 * hidden
        self.c_fc = Conv1D(hidden, inner)
        self.c_proj = Conv1D(inner, hidden)

    def forward(self, x):
        return self.c_proj(functional.gelu(self.c_fc(x), approximate="tanh"))


class Layer(nn.Module):
    def __init__(self, config, layer, length):
        hidden, eps = config["n_embd"], config["layer_norm_epsilon"]
        self.ln_1 = nn.LayerNorm(hidden, eps=eps)
        self.attn = Attention(config, layer, length)
        self.ln_2 = nn.LayerNorm(hidden, eps=eps)
        self.mlp = MLP(config)

    def forward(self, x, position):
        x = x + self.attn(self.ln_1(x), position)
        return x + self.mlp(self.ln_2(x))


class GPT2(nn.Module):
    def __init__(self, config, length):
        hidden, count = config["n_embd"], config["n_layer"]
        self.wte = nn.Embedding(config["vocab_size"], hidden)
        self.wpe = nn.Embedding(config["n_positions"], hidden)
        self.h = nn.ModuleList([Layer(config, i, length) for i in range(count)])
        self.ln_f = nn.LayerNorm(hidden, eps=config["layer_norm_epsilon"])

    def forward(self, ids, position):
        x = self.wte(ids) + self.wpe(lg.arange(ids.shape[0]) + position)
        for layer in self.h:
            x = layer(x, position)
        return self.ln_f(x[-1:])  # of the last token alone


class LanguageModel(nn.Module):
    def __init__(self, config, length, *, is_tied):
        self.transformer = GPT2(config, length)
        self.is_tied = is_tied
        if not is_tied:
            self.lm_head = nn.Linear(config["n_embd"], config["vocab_size"], bias=False)

    def forward(self, ids, position):
        """(tokens,), () -> (vocabulary,): the logits behind the last token."""
        head = self.transformer.wte.weight if self.is_tied else self.lm_head.weight
        return functional.linear(self.transformer(ids, position), head).squeeze(0)


def has_tied_head(config, weights):
    """Whether the embeddings of tokens are the head as well: unless the file has another one."""
    head, tokens = "lm_head.weight", "transformer.wte.weight"
    if not config.get("tie_word_embeddings", True):
        return False
    return head not in weights or np.array_equal(weights[head], weights[tokens])


def application(weights):
    """The program that continues texts; they end as the configuration says, with one token or one of several."""
    said = weights.config.get("eos_token_id")
    ends = [said] if isinstance(said, int) else said
    return lg.TextGeneration(tokenizer=weights.tokenizer, padded=True, ends=ends)


def build(weights, length: int = 0, prefill: int = 64, *, program: bool = True):
    """A text has up to `length` tokens (0: as many as the checkpoint was made for); `prefill` come at a time.

    Where the checkpoint has a tokenizer a program comes with the model, unless `program` is false.
    """
    config = weights.config_for("gpt2", supported=SUPPORTED)
    length = length or config["n_positions"]
    net = LanguageModel(config, length, is_tied=has_tied_head(config, weights))

    def stored(name):  # the first release has the names of the decoder alone
        return name.removeprefix("transformer.") if "wte.weight" in weights else name

    has_program = program and weights.tokenizer is not None
    apps = [application(weights)] if has_program else []
    model = lg.Model("gpt2", net, rename=stored, apps=apps)
    token = (0, config["vocab_size"] - 1)
    tokens = lg.Dim("tokens", 1, min(prefill, length), typical=min(prefill, length))

    def text(count):
        """So many tokens, and the position of the first: the text has room for them behind it."""
        position = lg.spec(dtype=lg.i64, range=(0, length - count))
        return {"ids": lg.spec(count, dtype=lg.i64, range=token), "position": position}

    @model.entry(**text(tokens))
    def prefill(ids, position):
        return {"logits": net(ids, position)}

    @model.entry(**text(1))
    def decode(ids, position):
        return {"logits": net(ids, position)}

    return model
