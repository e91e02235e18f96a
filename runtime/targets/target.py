"""The class of all targets: what a compiler of kernels must do, and what it may leave out."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ...cellspec.cell import CellSpec
from ...codegen.shape import Precision, Save
from ..call.call import Call, Tensors
from ..call.layer_call import Choice, LayerCall
from ..call.masks import MadeMasks, masks_by_torch
from ..call.plain import all_plain, is_watched
from ..call.ragged import Ragged
from ..call.requests import InputBackward, LayerBackward, LayersCall, LayersRead, StepBackward
from ..call.tensors import Forward, Gradients, ScanInputs, SomeTensors, States, Stepped
from ..program.recorder import recording
from ..program.seen import NEVER, Replays
from ..store.tuned import Asked
from .by_torch import ONE_LANE, TORCH_MOVES, Lanes, Moves, Packing


class Target(ABC):
    """A compiler of kernels and what they run on. Only a target knows its tensors' memory layouts.

    A subclass sets `device` and `dtypes`, writes the abstract methods, and overrides the others
    where its kernels can do more. `register_target` takes an object of it.

    Attributes:
        device: torch's type of device that its tensors are on.
        dtypes: those that its kernels compute in.
        takes_masks: whether its calls take lengths and resets.
        takes_inputs: whether its calls take inputs that no weight multiplies.
        takes_stages: whether its kernels run cells that call gates or reduce over units.
        takes_results: whether its `forward` writes results to `ScanInputs.to`.
        reads_by_address: whether R, b and R_diag of one head may have any shape, those of several
            heads any strides.
        takes_steps: whether it has kernels for a single step: `step` and `step_backward`. They run
            sequences of one step too; other targets run a step as a sequence of one.
        variants_of_wx: those of cells without R whose backward reads wx.
        most_shared: bytes up to which calls share a state before the first step: filling more takes
            longer than what a call takes besides.
        at_once: whether it may run the layers of a call at the same time: `forward_layers` and
            `backward_layers`.
    """

    device: str
    dtypes: tuple[torch.dtype, ...]
    takes_masks = False
    takes_inputs = False
    takes_stages = False
    takes_results = False
    reads_by_address = False
    takes_steps = False
    variants_of_wx: tuple[str, ...] = ()
    most_shared = 0
    at_once = False

    @abstractmethod
    def find_compiler(self, index: int | None) -> None:
        """Raise a CompileError if kernels cannot be built for the device of this number."""

    @abstractmethod
    def dtypes_of(self, dtype: torch.dtype) -> tuple[torch.dtype, torch.dtype]:
        """Return the dtype in which a call is computed, and the dtype of its results."""

    def initial_states(
        self, like: Tensor, values: Sequence[float], shape: Sequence[int]
    ) -> list[Tensor]:
        """Return the states before the first step if the caller gives none, as `like`.

        Small ones are shared by all calls, unless somebody could change or see them.
        """
        shape, recorder = tuple(shape), recording()
        if (
            torch.compiler.is_compiling()
            or math.prod(shape) * like.element_size() > self.most_shared
            or not all_plain((like,))
            or (recorder is None and is_watched())
        ):
            return [like.new_full(shape, value) for value in values]
        found = [self.shared_state(like, shape, value) for value in values]
        if recorder is not None:
            for state in found:
                recorder.keep(state)
        return found

    def shared_state(self, like: Tensor, shape: tuple[int, ...], value: float) -> Tensor:
        """Return a state of one value for all calls: one that was made before, if there is."""
        return like.new_full(shape, value)

    @abstractmethod
    def rounds(self, dtype: torch.dtype, precision: Precision) -> bool:
        """Return whether the products of a call may round factors of float32 to TF32."""

    @abstractmethod
    def project(self, x: Tensor, weight: Tensor) -> Tensor:
        """Return the wx (B, T, N, D, Gx) of a module's input (T, B, input), as the kernels read it.

        By operations that autograd follows, at the precision of torch's products.
        """

    @abstractmethod
    def project_at(self, x: Tensor, weight: Tensor, tf32: bool) -> Tensor:
        """Return the same at the precision of a call, where nothing has to follow."""

    @abstractmethod
    def project_gradients(self, backward: InputBackward) -> tuple[Tensor | None, Tensor | None]:
        """Return the gradients of `project`, of x and of the weight; None for one not wanted."""

    @abstractmethod
    def saved_shape(self, cell: CellSpec, sizes: Sequence[int], save: Save) -> tuple[int, ...]:
        """Return the shape of `Forward.saved` where a backward follows; sizes are T, B, N and D."""

    def computes_gates_again(self, save: Save) -> bool:
        """Return whether a backward computes the gates again, from wx and b."""
        return save == "states"

    @abstractmethod
    def forward(self, layer_call: LayerCall, inputs: ScanInputs, donated: bool = False) -> Forward:
        """Run the forward of a call; `donated` says that nobody reads wx again.

        If its choice has `reverse`, it runs from the last step to the first, on tensors in order.
        """

    @abstractmethod
    def backward(self, layer_call: LayerCall, backward: LayerBackward) -> Gradients:
        """Run the backward of a call."""

    def begin(self, dtype: torch.dtype, index: int | None) -> None:  # noqa: B027
        """Begin what a first call needs whatever its cell is, beside the caller; return at once.

        Args:
            dtype: in which the call is computed.
            index: of the device; None for the current one.
        """

    def replays(self, call: Call) -> Replays:
        """Return what records calls like one, and replays them."""
        return NEVER

    def moves(self) -> Moves:
        """Return what copies tensors into new ones, which may copy all of them at once."""
        return TORCH_MOVES

    def runs_as_one_row(
        self, cell: CellSpec, choice: Choice, wx: Tensor, batch: int, steps: int
    ) -> bool:
        """Return True if packed sequences of a cell without R run as one row with resets.

        Args:
            wx: (total, N, D, Gx), of so many sequences, the longest of `steps`.
        """
        return False

    def packing(self, starts: Tensor, sizes: tuple[int, int], total: int) -> Packing:
        """Return what copies `total` packed rows of sequences; the sizes are T and B.

        `starts`, (T + 1,) of int64, has the first packed row of each step, and their number.
        """
        return Packing(starts, sizes, total)

    def made_masks(
        self,
        ragged: Ragged,
        sizes: tuple[int, int],
        device: torch.device,
        reverses: Sequence[bool],
    ) -> MadeMasks:
        """Return the masks of a call of all layers.

        Args:
            ragged: of the call, with lengths of int64 on the device.
            sizes: B and T.
            device: of the call.
            reverses: of each direction, whether it runs from the last step to the first.
        """
        return masks_by_torch(ragged, sizes, device, reverses)

    def rows_that_run(self, x: Tensor, ragged: Ragged, made: MadeMasks) -> Tensor:
        """Return x (T, B, features) with zeros where a row runs no step: no product reads more."""
        return ragged.cleaned(x)

    def lanes(self, like: Tensor, steps: int) -> Lanes:
        """Return what runs both directions of a layer: at once where the target can."""
        return ONE_LANE

    def joins(self, layer_call: LayerCall, like: Tensor, batch: int, heads: int, dim: int) -> bool:
        """Return whether one call of both directions is better than a call of each.

        Such calls have `reverse="half"`: the second half of the heads runs in reversed time.

        Args:
            layer_call: of the direction that runs forwards.
            like: gives dtype and device.
            batch: rows.
            heads: of one direction.
            dim: units per head.
        """
        return False

    def takes_features(self, layer_call: LayerCall, x: Tensor, weight: Tensor) -> bool:
        """Return whether kernels should multiply the input by its weights, where no backward is.

        Args:
            layer_call: of one direction of time.
            x: (T, B, input).
            weight: (Gx, N, D, input).
        """
        return False

    def forward_of_features(
        self, layer_call: LayerCall, x: Tensor, weight: Tensor, inputs: ScanInputs
    ) -> Forward:
        """Run the forward of a call that `takes_features`; the wx of its tensors has no gates."""
        raise NotImplementedError(f"{type(self).__name__}.forward_of_features")

    def sequence(
        self, call: Call, x: Tensor, states: Sequence[Tensor], parameters: SomeTensors
    ) -> tuple[Tensor, States] | None:
        """Run all layers over all steps by one call, where no backward follows.

        Args:
            call: the call.
            x: (T, B, input).
            states: before the first step, (layers * directions, B, hidden) each, or none.
            parameters: of the module.

        Returns:
            The output of the last layer and each state after the last step; None where the caller
            has to run each layer by itself.
        """
        return None

    def forward_layers(
        self, asked: LayersCall, x: Tensor
    ) -> tuple[list[Forward], list[Tensor]] | None:
        """Run the forward of all layers; None where the caller has to run each by itself.

        Returns:
            The result of each layer, and the mask of each dropout.
        """
        return None

    def backward_layers(self, asked: LayersCall, reads: LayersRead) -> bool:
        """Run the backward of all layers; False where the caller has to run each by itself."""
        return False

    def step(self, call: Call, tensors: Tensors, to: Stepped | None = None) -> Stepped:
        """Run all layers of a module over one step, without dropout.

        Args:
            tensors: x is (B, input), or (1, B, input) of a sequence of one step. States before the
                step are (layers, B, hidden) each; none stand for their initial values.
                `Call.flat_weights` gives the weights.
            to: tensors without gaps for the results, other than the states; None for new ones.
        """
        raise NotImplementedError(f"{type(self).__name__}.step")

    def step_backward(
        self, call: Call, tensors: Tensors, backward: StepBackward
    ) -> list[Tensor | None]:
        """Return the gradients of x, the caller's states and the flat weights of each layer."""
        raise NotImplementedError(f"{type(self).__name__}.step_backward")

    def capture(
        self, device: torch.device, runs: Sequence[Callable[[], object]]
    ) -> list[Callable[[], None]] | None:
        """Return what replays each run on torch's current stream; None if nothing is captured."""
        return None

    def asked_ahead(
        self, layer_call: LayerCall, call: Call, steps: int, batch: int, like: Tensor
    ) -> Asked | None:
        """Return what the plan of a call is for; None on a target without plans.

        Args:
            layer_call: of one direction of time.
            call: of all layers.
            steps: T.
            batch: rows.
            like: gives dtype and device of the call.
        """
        return None

    def load_ahead(  # noqa: B027
        self, layer_call: LayerCall, call: Call, steps: int, batch: int, like: Tensor
    ) -> None:
        """Compile and load the kernels of a call that has not been made.

        Arguments are as in `asked_ahead`.
        """
