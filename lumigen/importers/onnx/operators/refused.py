"""refused: operators that no static program computes, each with the reason and what to do instead."""

from __future__ import annotations

from lumigen.importers.onnx.node import Function, OnnxNode, Operator

_RANDOM = (
    "it draws random numbers, and a model has no random state of its own",
    "Make the numbers an input.",
)
_TEXTS = (
    "it computes with strings",
    "Do it before the model, and pass numbers.",
)
_TRAINING = ("it trains, and models are compiled for inference", "Export the model in eval mode.")
_MAPS = ("its operand is a map", "Make a tensor of it before the model.")

REASONS = {
    "NonMaxSuppression": (
        "only a run knows how many boxes it selects",
        "Export the model without it, and select boxes of its outputs.",
    ),
    "ImageDecoder": ("it decodes a file", "Decode before the model, and pass pixels."),
    **dict.fromkeys(("RandomNormal", "RandomNormalLike", "RandomUniform"), _RANDOM),
    **dict.fromkeys(("RandomUniformLike", "Bernoulli", "Multinomial"), _RANDOM),
    **dict.fromkeys(("StringConcat", "StringNormalizer", "StringSplit"), _TEXTS),
    **dict.fromkeys(("RegexFullMatch", "TfIdfVectorizer"), _TEXTS),
}
OF_DOMAINS = {
    "ai.onnx.preview.training": dict.fromkeys(
        ("Adagrad", "Adam", "Gradient", "Momentum"), _TRAINING
    ),
    "ai.onnx.ml": {
        **dict.fromkeys(("DictVectorizer", "CastMap"), _MAPS),
        "CategoryMapper": _TEXTS,
    },
}


def _refusing(why: str, remedy: str) -> Function:
    def function(n: OnnxNode) -> None:
        raise n.unsupported(why, remedy)

    return function


ROWS = tuple(
    Operator(name, _refusing(*reason), domain=domain, refusal=reason[0])
    for domain, reasons in {"": REASONS, **OF_DOMAINS}.items()
    for name, reason in reasons.items()
)
