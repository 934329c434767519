"""Continues a text with a built model: python generate.py PROJECT WEIGHTS "Once upon a time" [--tokens 200].

The weights' file is opened for its tokenizer alone. Each next token is the one with the greatest logit, or is drawn
where a temperature is given.
"""

import argparse
import sys
import time

import numpy as np

import lumigen as lg
from lumigen.tokenizer import TextStream, encode


def chosen(logits, temperature, rng):
    """The next token: the likeliest, or one drawn with the odds that the temperature leaves."""
    if temperature == 0:
        return int(logits.argmax())
    scaled = logits.astype(np.float64) / temperature
    odds = np.exp(scaled - scaled.max())
    return int(rng.choice(len(odds), p=odds / odds.sum()))


def generate(model, ids, *, most, stop=(), temperature=0.0, seed=0, threads=0):
    """Token after token, up to `most`, until one is in `stop` or the caches are full."""
    rng = np.random.default_rng(seed)
    context = model.context(threads=threads)
    entries = {e["name"]: e for e in model.manifest["entries"]}
    positions = next(p for p in entries["decode"]["inputs"] if p["name"] == "position")
    room = positions["range"][1] + 1
    step = entries["prefill"]["dims"][0]["max"]  # tokens that come at a time
    if not 0 < len(ids) <= room:
        raise SystemExit(f"the prompt has {len(ids)} tokens, the model takes 1 to {room}")
    for start in range(0, len(ids), step):
        logits = context.prefill(np.array(ids[start : start + step]), np.array(start))
    for position in range(len(ids), len(ids) + most):
        token = chosen(logits, temperature, rng)
        if token in stop:
            return
        yield token
        if position == room:
            return
        logits = context.decode(np.array([token]), np.array(position))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("project")
    parser.add_argument("weights")
    parser.add_argument("prompt")
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=0)
    options = parser.parse_args()
    tokenizer = lg.open_weights(options.weights).tokenizer
    if tokenizer is None:
        raise SystemExit(f"{options.weights} has no tokenizer")
    model = lg.load(options.project).Model()
    ids = list(encode(tokenizer, options.prompt))
    stream = TextStream(tokenizer)
    for token in ids:  # so that it knows what the text goes on from
        stream.push(token)
    start, count = time.perf_counter(), 0
    stop = {tokenizer.eos} if tokenizer.eos is not None else set()
    found = generate(
        model,
        ids,
        most=options.tokens,
        stop=stop,
        temperature=options.temperature,
        seed=options.seed,
        threads=options.threads,
    )
    for token in found:
        sys.stdout.write(stream.push(token))
        sys.stdout.flush()
        count += 1
    print(stream.finish())
    seconds = time.perf_counter() - start
    print(f"{count} tokens, {count / seconds:.0f} a second", file=sys.stderr)


if __name__ == "__main__":
    main()
