"""The module fuzzer's data: a module, and what is done with it, one call after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Change = Literal["copy_", "load_state_dict", "replace", "deepcopy"]
Refused = Literal["a sequence to step", "another width", "other states"]
Mode = Literal["backward", "twice", "late", "forward", "no_grad", "inference"]
#: New weights in place, from a state dict, as new parameters; and a copy that goes on.
CHANGES: tuple[Change, ...] = ("copy_", "load_state_dict", "replace", "deepcopy")
#: Calls that have to raise a TensorError.
REFUSED: tuple[Refused, ...] = ("a sequence to step", "another width", "other states")
#: The modes that are followed by a backward: at once, two times, or after the next call's forward.
WITH_BACKWARD = ("backward", "twice", "late")


@dataclass(frozen=True)
class Call:
    """One call, or one change between calls.

    Attributes:
        kind: what is called.
        batch: rows.
        steps: of the sequence, or so many single steps.
        single: whether one sequence is given without an axis of rows.
        mode: which gradients there are.
        values: the number of a draw of the tensors; calls with equal numbers have equal tensors.
        states: whether the states before the first step are given.
        lengths: of each row; empty without.
        resets: the steps of each row before which it is reset; empty without.
        reset_to: `init`, or what the reset values are of: `shared` by all rows, `rows`, or
            `stored` for each step; `own` for the states before the first step.
        all_states: whether all states are wanted at all steps.
        view: of x, as in `fuzz.tensors.VIEWS`; `plain` for none.
        x_gradient: whether the gradients of x, states and the like are wanted.
        outputs: which outputs are used, and have gradients: `all`, `y` or `last`.
        training: whether the module is in training.
    """

    kind: Literal["forward", "steps", "stepper"] | Change | Refused
    batch: int = 1
    steps: int = 1
    single: bool = False
    mode: Mode = "backward"
    values: int = 0
    states: bool = False
    lengths: tuple[int, ...] = ()
    resets: tuple[tuple[int, ...], ...] = ()
    reset_to: str = "init"
    all_states: bool = False
    view: str = "plain"
    x_gradient: bool = True
    outputs: str = "all"
    training: bool = True

    @property
    def has_backward(self) -> bool:
        """True if a backward follows."""
        return self.kind in ("forward", "steps") and self.mode in WITH_BACKWARD

    def __str__(self) -> str:
        if self.kind in CHANGES:
            return self.kind
        options: list[str] = [self.mode] if self.kind in ("forward", "steps") else []
        options += ["one sequence"] if self.single else []
        options += ["lengths"] if self.lengths else []
        options += [f"resets to {self.reset_to}"] if self.resets else []
        options += [name for name in ("states", "all_states") if getattr(self, name)]
        return f"{self.kind}, T {self.steps}, B {self.batch}, {', '.join(options)}".rstrip(", ")


@dataclass(frozen=True)
class ModuleCase:
    """A module and its calls.

    Attributes:
        cell: a name of `cells.CELLS`.
        calls: in order.
        seed: of all values.
        layers: of the module.
        heads: of the module.
        dim: units per head.
        input_size: features of x.
        bias: whether gates have biases.
        batch_first: the layout.
        both: whether layers run in both directions.
        proj_size: features of the output per head; 0 for no projection.
        dropout: of the module. In training it drops all features, since masks are random.
        order: the option `layers` of the module.
        variant: the kind of plan on a GPU.
        save: as in `rnnc.RNN`.
        frozen: whether every other parameter wants no gradient.
        forms: the form of each of the cell's inputs that are passed, in turns: `rows`, `full`,
            `heads`, `steps` or `units`.
        passed: whether calls are given what they would draw, and so have its gradients.
        device: where the kernels run.
        dtype: of the module.
        threads: of torch on the CPU.
        fresh: whether the case runs in a process that has run none before.
        burst: whether all calls are made before anything waits for the device.
        neighbour: which values, each up to one rounding away from those of the seed; 0 for those.
        flags: `shipped` for the flags of a compiler that users get, or `quick`.
    """

    cell: str
    calls: tuple[Call, ...]
    seed: int = 0
    layers: int = 1
    heads: int = 1
    dim: int = 1
    input_size: int = 1
    bias: bool = True
    batch_first: bool = False
    both: bool = False
    proj_size: int = 0
    dropout: float = 0.0
    order: str = "auto"
    variant: str = "auto"
    save: str = "gates"
    frozen: bool = False
    forms: tuple[str, ...] = ("rows",)
    passed: bool = False
    device: str = "cpu"
    dtype: str = "float32"
    threads: int = 1
    fresh: bool = False
    burst: bool = False
    neighbour: int = 0
    flags: str = "quick"

    @property
    def parts(self) -> int:
        """Layers times directions."""
        return self.layers * (2 if self.both else 1)

    @property
    def hidden(self) -> int:
        """Units of a layer."""
        return self.heads * self.dim

    @property
    def width(self) -> int:
        """Features of the output of one direction."""
        return self.heads * (self.proj_size or self.dim)

    def __str__(self) -> str:
        layers = "1 layer" if self.layers == 1 else f"{self.layers} layers"
        found = f"{self.cell}, {layers} of {self.heads} x {self.dim}, {self.dtype}"
        more = ["fresh"] if self.fresh else []
        more += [self.order] if self.order != "auto" else []
        more += ["both directions"] if self.both else []
        more += [f"proj_size {self.proj_size}"] if self.proj_size else []
        return ", ".join([found, *more])
