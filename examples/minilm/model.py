"""Sentence embeddings: MiniLM and other BERT encoders, configured by their config.json.

The attributes are called as the checkpoint calls its tensors, which is all that binds them.
"""

import math

import lumigen as lg
from lumigen import functional, nn

# the values that are computed here, where others would change what is computed
SUPPORTED = {
    "hidden_act": ("gelu",),
    "position_embedding_type": ("absolute",),
    "is_decoder": (False,),
}


class Embeddings(nn.Module):
    def __init__(self, config):
        hidden = config["hidden_size"]
        self.word_embeddings = nn.Embedding(config["vocab_size"], hidden)
        self.position_embeddings = nn.Embedding(config["max_position_embeddings"], hidden)
        self.token_type_embeddings = nn.Embedding(config["type_vocab_size"], hidden)
        self.LayerNorm = nn.LayerNorm(hidden, eps=config["layer_norm_eps"])

    def forward(self, ids):
        positions = self.position_embeddings.weight[: ids.shape[1]]
        first_type = self.token_type_embeddings.weight[0]
        return self.LayerNorm(self.word_embeddings(ids) + first_type + positions)


class SelfAttention(nn.Module):
    def __init__(self, config):
        hidden = config["hidden_size"]
        self.heads = config["num_attention_heads"]
        self.query = nn.Linear(hidden, hidden)
        self.key = nn.Linear(hidden, hidden)
        self.value = nn.Linear(hidden, hidden)

    def forward(self, x, mask):
        def split(y):  # (batch, sequence, hidden) -> (batch, heads, sequence, hidden / heads)
            return y.unflatten(-1, (self.heads, -1)).transpose(1, 2)

        q, k, v = split(self.query(x)), split(self.key(x)), split(self.value(x))
        return (
            functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
            .transpose(1, 2)
            .flatten(2)
        )


class Residual(nn.Module):
    """A projection added to what came before, normalised."""

    def __init__(self, width, config):
        self.dense = nn.Linear(width, config["hidden_size"])
        self.LayerNorm = nn.LayerNorm(config["hidden_size"], eps=config["layer_norm_eps"])

    def forward(self, x, before):
        return self.LayerNorm(self.dense(x) + before)


class Attention(nn.Module):
    def __init__(self, config):
        self.self = SelfAttention(config)
        self.output = Residual(config["hidden_size"], config)

    def forward(self, x, mask):
        return self.output(self.self(x, mask), x)


class Intermediate(nn.Module):
    def __init__(self, config):
        self.dense = nn.Linear(config["hidden_size"], config["intermediate_size"])

    def forward(self, x):
        return functional.gelu(self.dense(x))


class Layer(nn.Module):
    def __init__(self, config):
        self.attention = Attention(config)
        self.intermediate = Intermediate(config)
        self.output = Residual(config["intermediate_size"], config)

    def forward(self, x, mask):
        x = self.attention(x, mask)
        return self.output(self.intermediate(x), x)


class Encoder(nn.Module):
    def __init__(self, config):
        self.layer = [Layer(config) for _ in range(config["num_hidden_layers"])]

    def forward(self, x, mask):
        for layer in self.layer:
            x = layer(x, mask)
        return x


class Bert(nn.Module):
    def __init__(self, config):
        self.embeddings = Embeddings(config)
        self.encoder = Encoder(config)

    def forward(self, ids, mask):
        return self.encoder(self.embeddings(ids), mask)


def names_in(weights):
    """By our names: those of the file, which may lie in a module, or have the names of the first release."""
    prefix = "" if "embeddings.word_embeddings.weight" in weights else "bert."
    is_old = f"{prefix}embeddings.LayerNorm.gamma" in weights

    def rename(name):
        if is_old:
            name = name.replace("LayerNorm.weight", "LayerNorm.gamma")
            name = name.replace("LayerNorm.bias", "LayerNorm.beta")
        return prefix + name

    return rename


def build(weights, max_batch: int = 64) -> lg.Model:
    config = weights.config_for("bert", supported=SUPPORTED)
    longest = config["max_position_embeddings"]
    bert = Bert(config)
    model = lg.Model("minilm", bert, rename=names_in(weights))

    batch = lg.Dim("batch", 1, max_batch)
    sequence = lg.Dim("sequence", 1, longest, typical=min(128, longest))

    @model.entry(
        input_ids=lg.spec(batch, sequence, dtype=lg.i64, range=(0, config["vocab_size"] - 1)),
        attention_mask=lg.spec(batch, sequence, dtype=lg.i64, range=(0, 1)),
    )
    def embed(input_ids, attention_mask):
        """The mean of the last hidden states over the tokens, of length 1."""
        kept = attention_mask != 0  # (batch, sequence)
        # added to the scores: 0 for tokens, -inf for padding
        mask = lg.where(kept, 0.0, -math.inf)[:, None, None, :]  # (batch, heads, queries, keys)
        hidden = bert(input_ids, mask)  # (batch, sequence, hidden)
        weight = kept.float().unsqueeze(-1)
        mean = (hidden * weight).sum(1) / weight.sum(1).clamp(min=1e-9)
        return {"embedding": functional.normalize(mean, dim=-1)}

    return model
