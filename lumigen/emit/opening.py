"""opening: the program that runs when a model is opened, as an entry without tensors of a caller's."""

from __future__ import annotations

from dataclasses import replace

from lumigen.emit.contexts import EntryContext
from lumigen.emit.entry import entry_context
from lumigen.program import Argument, CompiledModel, Group, OutputArg, PartArg, WeightArg


def opening_context(model: CompiledModel) -> EntryContext | None:
    """It writes the weights themselves, in the form in which they are computed."""
    if model.opening is None:
        return None
    names = {s.weight.name: s.name for s in model.weights if s.weight.made and s.layout is None}
    groups = tuple(_over_weights(g, names) for g in model.opening.groups)
    return entry_context(model, replace(model.opening, outputs=(), groups=groups), (), ())


def _over_weights(group: Group, names: dict[str, str]) -> Group:
    def weight(a: Argument) -> Argument:
        match a:
            case OutputArg(name):
                return WeightArg(names[name])
            case PartArg(of=OutputArg(name)):
                return replace(a, of=WeightArg(names[name]))
            case _:
                return a

    variants = (
        replace(
            v,
            launches=tuple(
                replace(x, arguments=tuple(map(weight, x.arguments))) for x in v.launches
            ),
        )
        for v in group.variants
    )
    return replace(group, variants=tuple(variants))
