"""Temporaries of layers that repeat share slots, and no two that live at one time share bytes."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from lumigen.index import ix
from lumigen.lower.arena import Lifetime, plan_arena
from lumigen.lower.periodic import periodic
from lumigen.program import ALIGNMENT
from lumigen.rounds import Rounds, find_rounds

SIZES = [ix(64 * n) for n in (1, 2, 3)]
Step = tuple[
    str, int, list[str]
]  # key, size of what it writes, its temporaries with what it writes last


def lifetimes_of(steps: list[Step]) -> tuple[Lifetime, ...]:
    """Step i is at 2 * i."""
    size = {names[-1]: SIZES[size] for _, size, names in steps}
    at = {name: [2 * i for i, (_, _, names) in enumerate(steps) if name in names] for name in size}
    return tuple(Lifetime(name, size[name], min(at[name]), max(at[name])) for name in size)


def layers(count: int, body: list[tuple[int, list[int]]], ahead: int) -> list[Step]:
    """A step of each layer reads what was written so many steps before; `ahead` steps of their own come first."""
    steps: list[Step] = [(f"first {i}", 0, [f"t{i}"]) for i in range(ahead)]
    for _ in range(count):
        for j, (size, back) in enumerate(body):
            here = len(steps)
            read = [f"t{max(0, here - b)}" for b in back]
            steps.append((f"body {j}", size, [*read, f"t{here}"]))
    return [*steps, ("last", 0, [f"t{len(steps) - 1}", f"t{len(steps)}"])]


def slots_of(steps: list[Step]) -> tuple[list[list[str]], tuple[Lifetime, ...], dict[str, range]]:
    """(slots of each step, lifetimes, the bytes in which each temporary is)."""
    alive = lifetimes_of(steps)
    one = periodic(alive, [key for key, _, _ in steps], [names for _, _, names in steps])
    arena = plan_arena(one.lifetimes, ())
    home = {name: arena.home[one.home[name]] for name in one.home}
    start: dict[str, int] = {}
    end: dict[str, int] = {}
    for slot in arena.slots:
        start[slot.name] = max((end[a] for a in slot.after), default=0)
        end[slot.name] = start[slot.name] + -(-slot.bytes.const // ALIGNMENT) * ALIGNMENT
    places = {name: range(start[at], end[at]) for name, at in home.items()}
    return [[home[n] for n in names] for _, _, names in steps], alive, places


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.lists(st.integers(1, 6), max_size=3)),
        min_size=1,
        max_size=5,
    ),
    st.integers(2, 6),
    st.integers(1, 6),
)
def test_what_lives_at_one_time_lies_apart(
    body: list[tuple[int, list[int]]], count: int, ahead: int
) -> None:
    _, alive, places = slots_of(layers(count, body, ahead))
    for a, b in combinations(alive, 2):
        if a.first <= b.last and b.first <= a.last:
            one, other = places[a.name], places[b.name]
            assert one.stop <= other.start or other.stop <= one.start, (a, b)


def test_every_layer_has_the_slots_of_the_first() -> None:
    """A layer reads what the one before has left in its first step, and again in its third."""
    body = [(0, [1]), (1, [1]), (2, [1, 3]), (0, [1])]
    counts = set[int]()
    for count in (3, 12):
        used, _, _ = slots_of(layers(count, body, 1))
        rounds = [used[i : i + 4] for i in range(1, 1 + 4 * count, 4)]
        assert all(r == rounds[0] for r in rounds)
        counts.add(len({s for step in used for s in step}))
    assert len(counts) == 1


def test_what_passes_to_the_next_layer_leaves_room_in_between() -> None:
    """It is read by the first step of a layer and written by the last; two larger ones live at the same time."""
    used, _, places = slots_of(layers(6, [(0, [1]), (2, [1]), (2, [1]), (0, [1])], 1))
    assert used[1:5] == used[5:9] == used[21:25]
    assert max(p.stop for p in places.values()) == 2 * SIZES[2].const


def test_what_the_last_layer_leaves_is_not_held_in_the_others() -> None:
    """After the layers comes the first step of one more, and one that reads what it wrote."""
    steps = layers(4, [(0, [1]), (2, [1]), (2, [1]), (0, [1])], 1)[:-1]
    steps += [("body 0", 0, [steps[-1][2][-1], "begun"]), ("other", 1, ["begun", "end"])]
    used, _, places = slots_of(steps)
    assert used[1] == used[5] == used[17]
    assert max(p.stop for p in places.values()) == 2 * SIZES[2].const


def test_what_is_written_while_it_is_read_takes_turns() -> None:
    """A layer of one step cannot write where it reads, so every other layer is like the first."""
    used, _, _ = slots_of(layers(9, [(0, [1])], 1))
    assert used[3] == used[5] == used[7]
    assert used[4] == used[6] == used[8]
    assert used[3] != used[4]


def test_rounds_are_found_by_what_repeats() -> None:
    keys = list("xabcabcabcaby")
    assert find_rounds(keys, [1] * len(keys)) == (Rounds(1, 3, 3, rest=2),)
    assert find_rounds(keys, [1] * len(keys), lambda start, _: start == 2) == (
        Rounds(2, 3, 3, rest=1),
    )
    assert find_rounds(list("aabb"), [1] * 4) == ()
    assert find_rounds(list("aaaxbbbb"), [1] * 8) == (Rounds(0, 1, 3), Rounds(4, 1, 4))
