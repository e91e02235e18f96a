"""The launches of the layers of a wavefront, and of the products between them."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ....codegen.cuda.wavefront.groups import reserve_cluster, storing_warps
from ...replay.recorder import recording
from ..driver.clusters import launch_clusters
from ..driver.stream_memory import wait_until, write
from ..load import load_kernel, load_reserve
from ..prepared import Prepared
from .again import fork_again, join_again, launched_again
from .counters import Counters, ReserveArguments
from .lanes import WAYS, Lanes, lanes_of
from .products import Between

# A block may wait for a product that has no multiprocessor yet, because other work holds it, as
# long as for the first data of a block that has not started: kFirstDataBound of watchdog.cuh.
LONGEST_WAIT = 300 * 10**9  # ns


class LaterLaunch:
    """Takes the place of a launcher's `run`: keeps what it is given.

    Attributes:
        arguments: of the kernel.
        kept: tensors that the arguments have the addresses of.
    """

    arguments: Any
    kept: tuple[Tensor | None, ...]

    def __call__(
        self, arguments: ctypes.Structure, R: Tensor | None, like: Tensor, steps: int
    ) -> None:
        """Keep them."""
        self.arguments, self.kept = arguments, (R, like)


class Chunks(NamedTuple):
    """The chunks of steps of a call.

    Attributes:
        steps: of the call.
        size: steps per chunk; the last one may have fewer.
        descending: whether they are computed from the last step to the first.
    """

    steps: int
    size: int
    descending: bool

    @property
    def indices(self) -> Sequence[int]:
        """The chunks in the order of computation."""
        count = math.ceil(self.steps / self.size)
        return range(count - 1, -1, -1) if self.descending else range(count)


def run_group(
    ready: Prepared,
    launches: Sequence[LaterLaunch],
    products: Sequence[Between],
    chunks: Chunks,
    reserved: int,
    meanwhile: Callable[[], None] | None = None,
) -> None:
    """Run layers at the same time, after the current stream's work so far and before later work.

    Args:
        ready: of each layer's kernel, on the current device.
        launches: of each layer, in the order of computation.
        products: between each two of them, and after the last one if a layer follows.
        chunks: of steps.
        reserved: multiprocessors that are kept free while the layers start.
        meanwhile: launches other work on the current stream, which runs beside the layers.
    """
    plan: Any = ready.plan
    grid = plan.grid(ready.sizes.heads, plan.batch_tiles(ready.sizes.batch))
    indices, lanes = chunks.indices, lanes_of(ready.device)
    group = _Group(ready, grid, Counters(len(launches), len(indices), lanes.device), lanes)
    group.warm_up(products, chunks)
    current = torch.cuda.current_stream(lanes.device)
    last, used = len(products) == len(launches), (len(launches), 1 + WAYS * len(products))
    recorder = recording()
    lanes.fork(*used, current.cuda_stream)
    try:
        if recorder is not None:
            fork_again(recorder, lanes, *used, group.counters)
        group.launch(launches, chunks.size, reserved, last)
        # By diagonals: each product is launched after all that its input depends on.
        for number in range(len(products) + len(indices) - 1):
            for place, product in enumerate(products):
                if 0 <= number - place < len(indices):
                    group.multiply(place, product, indices[number - place])
        torch.cuda.set_stream(current)
        lanes.launched()
        if recorder is not None:
            launched_again(recorder, lanes)
        if meanwhile:
            meanwhile()
    except BaseException:
        torch.cuda.set_stream(current)
        lanes.give_up(group.counters.tensor.data_ptr(), group.counters.tensor.nbytes)
        raise
    lanes.join()
    if recorder is not None:
        join_again(recorder, lanes)


class _Group:
    """Layers that run at the same time."""

    def __init__(
        self, ready: Prepared, grid: tuple[int, int, int], counters: Counters, lanes: Lanes
    ) -> None:
        self.ready, self.grid, self.counters, self.lanes = ready, grid, counters, lanes
        self.blocks = math.prod(grid)

    def warm_up(self, products: Sequence[Between], chunks: Chunks) -> None:
        """Run the products once, the first time: loading a kernel may wait for all streams.

        Their results are overwritten.
        """
        key = self.ready.cell, self.ready.plan, self.ready.sizes, chunks, products[0].key
        if key not in self.lanes.warm:
            for product in products:
                product.multiply_all(chunks.indices, recorded=False)
            self.lanes.warm.add(key)

    def launch(
        self, launches: Sequence[LaterLaunch], steps: int, reserved: int, followed: bool
    ) -> None:
        """Launch the kernels of all layers: each starts once all blocks of the one before have.

        So whichever of them have no room yet, the first one that is not over has what it needs.
        """
        ready, lanes, counters = self.ready, self.lanes, self.counters
        plan: Any = ready.plan
        kernel = load_kernel(ready.cell, plan, f"rnnc_{plan.direction}", ready.device)
        cluster = reserve_cluster(plan)
        reserve = load_reserve(ready.cell, plan, cluster, ready.device)
        last = counters.started(len(launches) - 1)
        asked = ReserveArguments(counters.reserved, last, self.blocks)
        launch_clusters(reserve, (reserved, 1, 1), cluster, asked, lanes.products[0].handle)
        for place, launch in enumerate(launches):
            arguments: Any = launch.arguments
            if arguments.watchdog:
                arguments.watchdog = max(arguments.watchdog, LONGEST_WAIT)
            stream = lanes.layers[place].handle
            if place:
                wait_until(stream, counters.started(place - 1), self.blocks)
            else:
                wait_until(stream, counters.reserved, reserved)
            hands_over = followed or place + 1 < len(launches)
            handed = counters.handed(arguments, place, steps, hands_over)
            kernel(self.grid, handed, stream, lane=True)

    def multiply(self, place: int, product: Between, chunk: int) -> None:
        """Launch a product between two layers, behind the first and ahead of the second."""
        plan: Any = self.ready.plan
        warps = self.blocks * storing_warps(plan)
        way, counters = chunk % WAYS, self.counters
        lane = self.lanes.products[1 + WAYS * place + way]
        wait_until(lane.handle, counters.done(place, chunk), warps)
        product.multiply(chunk, way, lane)
        if place + 1 < counters.layers:
            write(lane.handle, counters.ready(place + 1, chunk), 1)
