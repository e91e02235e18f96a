"""The plan of a call on a GPU: one kernel plan per direction."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from ..cellspec.cell import CellSpec
from .cuda.kernel_plan import KernelPlan
from .shape import DIRECTIONS, Direction, Dtype, Reverse, Save


@dataclass(frozen=True)
class Plan:
    """The kernel plans of a call, each of one kind.

    All kinds of plans save the same tensors for the backward, in the same layout. So each direction
    may have the kind that is fastest for it.

    Attributes:
        forward: the plan of the forward kernel.
        backward: the plan of the backward kernel.

    Raises:
        ValueError: a plan is for the other direction, or the two disagree about the GPU, the dtype,
            the head dim, what is saved or the order of time, or an alternating plan meets one of
            another kind.

    Example:
        >>> import rnnc
        >>> from rnnc.codegen.cuda.limits import limits_of
        >>> from rnnc.codegen.cuda.planner import plan_for
        >>> from rnnc.codegen.shape import Shape
        >>> plan = plan_for(rnnc.cells.lstm, Shape(heads=12, head_dim=64), limits_of("H200"))
        >>> plan.variant, plan.forward.rows, plan.backward.rows
        ('block+cluster', 4, 8)
    """

    forward: KernelPlan
    backward: KernelPlan

    def __post_init__(self) -> None:
        for direction in DIRECTIONS:
            found = getattr(self, direction)
            if not isinstance(found, KernelPlan) or found.direction != direction:
                raise ValueError(f"no plan of a {direction} kernel: {found!r}")
        forward, backward = self.forward.agreed, self.backward.agreed
        for name in forward | backward:
            if forward.get(name) != backward.get(name):
                raise ValueError(
                    f"plans that do not go together: {name} {forward.get(name)}"
                    f" and {backward.get(name)}"
                )

    def kernel(self, direction: Direction) -> KernelPlan:
        """Return the plan of the kernel of a direction."""
        return self.forward if direction == "forward" else self.backward

    def in_time(self, reverse: Reverse, masked: bool = False) -> Plan:
        """The same plan for a direction of time.

        Args:
            reverse: which heads run from the last step to the first.
            masked: whether batch rows have lengths and resets.
        """
        if self.forward.reverse == reverse and self.forward.masked == masked:
            return self
        both = (replace(p, reverse=reverse, masked=masked) for p in (self.forward, self.backward))
        return Plan(*both)

    def with_stored_resets(self, cell: CellSpec, most: int) -> Plan:
        """The same plan for values after resets that differ between steps.

        Its kernels have them ready before each step, where there is room.

        Args:
            cell: the cell.
            most: bytes of shared memory that a block may ask for.
        """

        def with_stored(plan: KernelPlan) -> KernelPlan:
            needed = plan.reset_bytes(cell)
            if needed is None or plan.launch_shape.shared + needed > most:
                return replace(plan, resets="late")
            return replace(plan, resets="ahead", reset_shared=needed)

        return Plan(with_stored(self.forward), with_stored(self.backward))

    @cached_property
    def kernels(self) -> dict[str, KernelPlan]:
        """Each kernel by its name in the source, with the plan whose translation unit has it."""
        found: dict[str, KernelPlan] = {}
        for plan in (self.forward, self.backward):
            for name in plan.kernel_names:
                found.setdefault(name, plan)
        return found

    @property
    def variant(self) -> str:
        """The kind of both plans, or both kinds as in `"block+cluster"`."""
        return "+".join(dict.fromkeys((self.forward.kind, self.backward.kind)))

    @property
    def brief(self) -> str:
        """In a few words, what distinguishes the plan from others of its kind."""
        if self.forward.kind == self.backward.kind:
            return self.forward.brief(self.backward)
        return self.variant

    @property
    def nanoseconds(self) -> tuple[int, int]:
        """The estimated time per step, forward and backward."""
        return self.forward.nanoseconds, self.backward.nanoseconds

    @property
    def costs(self) -> tuple[int, int]:
        """Times by which plans are compared, forward and backward."""
        return self.forward.cost, self.backward.cost

    @property
    def binding(self) -> str:
        """Limit that a larger head would break in each direction."""
        if self.forward.binding == self.backward.binding:
            return self.forward.binding
        return f"forward: {self.forward.binding}; backward: {self.backward.binding}"

    @property
    def arch(self) -> str:
        """The GPU architecture, as the CUDA compiler names it."""
        return self.forward.arch

    @property
    def dtype(self) -> Dtype:
        """Of all tensors."""
        return self.forward.dtype

    @property
    def tf32(self) -> bool:
        """True if float32 products may round to tf32."""
        return self.forward.tf32

    @property
    def save(self) -> Save:
        """True if the forward saves gates for the backward, or only states."""
        return self.forward.save

    def __str__(self) -> str:
        head_dim = self.forward.agreed.get("head_dim")
        sized = f", head dim {head_dim}" if head_dim else ""
        return (
            f"{self.variant} ({self.arch}, {self.dtype}{sized}),"
            f" saves {self.save} for the backward\n"
            f"  forward:  {self.forward}\n"
            f"  backward: {self.backward}"
        )
