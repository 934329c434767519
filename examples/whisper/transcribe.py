"""Writes what is said in a sound: python transcribe.py PROJECT WEIGHTS speech.wav [--language en] [--translate].

WEIGHTS is the checkpoint's directory, for its tokenizer.json and generation_config.json. The sound is a WAV file of 16
bits and 16000 samples a second; of several channels the mean is taken. It is heard 30 seconds at a time.
"""

import argparse
import json
import sys
import wave
from pathlib import Path

import numpy as np

import lumigen as lg
from lumigen.tokenizer import TextStream

RATE = 16000


def read_wav(file):
    """(samples,) of f64, -1 to 1."""
    with wave.open(str(file)) as f:
        if f.getframerate() != RATE or f.getsampwidth() != 2:
            raise SystemExit(
                f"{file} has {8 * f.getsampwidth()} bits and {f.getframerate()} samples a second, not 16 and "
                f"{RATE}. `ffmpeg -i {file} -ar {RATE} -sample_fmt s16 speech.wav` converts it"
            )
        channels = f.getnchannels()
        samples = np.frombuffer(f.readframes(f.getnframes()), "<i2")
    return samples.reshape(-1, channels).mean(-1) / 32768


class Speech:
    """A built project's context, and what the checkpoint says of generating text."""

    def __init__(self, model, said, threads=0):
        self.context, self.said = model.context(threads=threads), said
        entries = {e["name"]: e for e in model.manifest["entries"]}
        audio = entries["listen"]["inputs"][0]
        self.window, self.sample = audio["shape"][0], {"f64": "f8", "f32": "f4"}[audio["dtype"]]
        position = next(p for p in entries["decode"]["inputs"] if p["name"] == "position")
        self.room = position["range"][1] + 1
        self.never = list(said.get("suppress_tokens") or [])
        self.not_first = list(said.get("begin_suppress_tokens") or [])

    def prompt(self, language, task):
        """The tokens that a text begins with; the language that is likeliest where none is named."""
        start = self.said["decoder_start_token_id"]
        prompt = [start]
        if self.said.get("is_multilingual"):
            languages = self.said["lang_to_id"]
            if language and f"<|{language}|>" not in languages:
                known = " ".join(name.strip("<|>") for name in languages)
                raise SystemExit(f"the language {language} is none of {known}")
            if not language:
                logits = self.context.prefill(np.array([start]), np.array(0))
                language = max(languages, key=lambda name: logits[languages[name]]).strip("<|>")
            prompt += [languages[f"<|{language}|>"], self.said["task_to_id"][task]]
        return [*prompt, self.said["no_timestamps_token_id"]]

    def tokens(self, samples, language=None, task="transcribe"):
        """Of one window of sound, the likeliest token after the other."""
        window = np.zeros(self.window)
        window[: len(samples)] = samples
        self.context.listen(window.astype(self.sample))
        prompt = self.prompt(language, task)
        found = self.context.prefill(np.array(prompt), np.array(0))
        for position in range(len(prompt), self.room):
            logits = np.array(found, np.float32)
            logits[self.never if position > len(prompt) else self.never + self.not_first] = -np.inf
            logits[self.said["no_timestamps_token_id"] :] = -np.inf  # they are the last tokens
            token = int(logits.argmax())
            if token == self.said["eos_token_id"]:
                return
            yield token
            found = self.context.decode(np.array([token]), np.array(position))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("project")
    parser.add_argument("weights")
    parser.add_argument("sound")
    parser.add_argument("--language", help="en, de, ...; the likeliest if left out")
    parser.add_argument("--translate", action="store_true", help="into English")
    parser.add_argument("--threads", type=int, default=0)
    options = parser.parse_args()
    tokenizer = lg.open_weights(options.weights).tokenizer
    settings = Path(options.weights) / "generation_config.json"
    if tokenizer is None or not settings.is_file():
        parser.error(f"{options.weights} has no tokenizer.json, or no generation_config.json")
    samples = read_wav(options.sound)
    model = lg.load(options.project).Model()
    speech = Speech(model, json.loads(settings.read_text()), options.threads)
    task = "translate" if options.translate else "transcribe"
    for start in range(0, len(samples), speech.window):
        stream = TextStream(tokenizer)
        for token in speech.tokens(samples[start : start + speech.window], options.language, task):
            sys.stdout.write(stream.push(token))
            sys.stdout.flush()
        print(stream.finish())


if __name__ == "__main__":
    main()
