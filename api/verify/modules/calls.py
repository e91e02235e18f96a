"""Draws the calls of a case: first ones, known ones, recorded and replayed ones, and others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from ..fuzz.tensors import VIEWS
from .case import CHANGES, REFUSED, Call, Mode, ModuleCase
from .sizes import Sizes

# How often the main call of a case comes: a second call is known, a third is recorded, and those
# after it are replayed.
_TIMES = (1, 2, 3, 4, 5, 5)
_VIEWS = tuple(view for view in VIEWS if view != "expanded")


def draw_calls(random: Random, case: ModuleCase, sizes: Sizes) -> tuple[Call, ...]:
    """Draw what is done with a module.

    Args:
        random: of the case.
        case: the module.
        sizes: what the sizes of calls may be.
    """
    main = _call(random, case, sizes, True)
    times = random.choice(_TIMES[:-1] if sizes.many_steps else _TIMES)
    between = random.choice([0.0, 0.3, 0.6])
    found: list[Call] = []
    for turn in range(times):
        if turn and random.random() < between:
            found += _others(random, case, sizes, main, found)
        found.append(_again(random, case, main, turn))
    if random.random() < 0.3:
        found += _others(random, case, sizes, main, found)
    return tuple(found)


def _again(random: Random, case: ModuleCase, main: Call, turn: int) -> Call:
    """Return the main call with other values than before."""
    call = replace(main, values=turn % 2)
    if random.random() < 0.15:
        call = replace(call, mode=_mode(random))
    if case.dropout == 1 and random.random() < 0.3:
        call = replace(call, training=not call.training)
    return call


def _others(
    random: Random, case: ModuleCase, sizes: Sizes, main: Call, earlier: Sequence[Call]
) -> list[Call]:
    """Draw what happens between two main calls, after earlier ones."""
    kinds = ["change", "another", "refused"]
    kinds += [] if case.both else ["steps", "steps", "stepper", "stepper"]
    found = []
    for kind in random.sample(kinds, random.choice([1, 1, 2])):
        values = random.randrange(2)
        steppers = [call for call in earlier if call.kind == "stepper"]
        if kind == "change":
            found.append(_change(random))
        elif kind == "another":
            found.append(_call(random, case, sizes, random.random() < 0.3))
        elif kind == "refused":
            found.append(replace(main, kind=random.choice(REFUSED), values=values))
        elif kind == "stepper" and steppers and random.random() < 0.7:
            # The same one again, after a change of what it reads.
            found += [_change(random)] if random.random() < 0.5 else []
            found.append(random.choice(steppers))
        else:
            found.append(_single_steps(random, sizes, main, kind == "stepper"))
    return found


def _change(random: Random) -> Call:
    return Call(random.choice(CHANGES), values=random.randrange(1000))


def _single_steps(random: Random, sizes: Sizes, main: Call, stepper: bool) -> Call:
    """Draw a call of single steps, often of as many rows as the main call."""
    single = random.random() < 0.15 and not stepper
    batch = main.batch if random.random() < 0.7 else random.choice(sizes.batches)
    call = Call(
        "stepper" if stepper else "steps",
        1 if single else batch,
        random.choice([1, 3, 4]),
        single=single,
        values=random.randrange(2),
        states=random.random() < 0.5,
        training=not stepper,
        mode="no_grad" if stepper else random.choice(["backward", "forward", "no_grad"]),
        x_gradient=random.random() < 0.7,
    )
    return _resets(random, call, ["own"] if stepper else ["init", "shared", "rows"])


def _mode(random: Random) -> Mode:
    modes: list[Mode] = ["backward", "twice", "late", "forward", "no_grad", "inference"]
    return random.choices(modes, [10, 1, 2, 2, 4, 2])[0]


def _call(random: Random, case: ModuleCase, sizes: Sizes, largest: bool) -> Call:
    """Draw a call over time."""
    single = random.random() < 0.08
    batch = sizes.batches[0] if largest else random.choice(sizes.batches)
    call = Call(
        "forward",
        1 if single else batch,
        sizes.steps[0] if largest else random.choice(sizes.steps),
        single=single,
        mode=_mode(random),
        values=random.randrange(2),
        states=random.random() < 0.4,
        all_states=random.random() < 0.1,
        view=random.choice(_VIEWS) if random.random() < 0.15 else "plain",
        x_gradient=random.random() < 0.6,
        outputs=random.choices(["all", "y", "last"], [4, 2, 1])[0],
        training=random.random() < 0.5,
    )
    if sizes.many_steps:
        return replace(call, all_states=False)
    if case.order != "wavefront" and random.random() < 0.25:
        lengths = tuple(
            random.choice([1, call.steps, random.randint(0, call.steps)]) for _ in range(call.batch)
        )
        call = replace(call, lengths=lengths)
    return _resets(random, call, ["init", "shared", "rows", "stored"], 0.25)


def _resets(random: Random, call: Call, kinds: list[str], chance: float = 0.4) -> Call:
    """Return the call, perhaps with resets."""
    if random.random() >= chance:
        return call
    share = random.choice([0.1, 0.4])
    steps = range(call.steps)
    resets = tuple(tuple(t for t in steps if random.random() < share) for _ in range(call.batch))
    reset_to = random.choice(kinds)
    if call.single and reset_to == "rows":
        reset_to = "shared"
    if not any(resets):
        resets = ((0,), *[()] * (call.batch - 1))
    return replace(call, resets=resets, reset_to=reset_to)
