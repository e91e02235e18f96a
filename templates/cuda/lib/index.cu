// Every header of the library with one example cell: what an editor opens, and a test compiles.
//
// An alternating plan either fuses its product or leaves it to the matrix library; this file has the
// fused kernels. To see the others, include alternating/library_forward.cuh and
// library_backward.cuh instead.
#include "example/lstm.cuh"

#include "lib/kernels/block_backward.cuh"
#include "lib/kernels/block_forward.cuh"
#include "lib/kernels/cluster_backward.cuh"
#include "lib/kernels/cluster_forward.cuh"
#include "lib/kernels/grid_backward.cuh"
#include "lib/kernels/grid_forward.cuh"

#include "lib/kernels/alternating/fused_backward.cuh"
#include "lib/kernels/alternating/fused_forward.cuh"

#include "lib/kernels/step/backward.cuh"
#include "lib/kernels/step/fused_forward.cuh"
#include "lib/kernels/step/tiled_backward.cuh"
#include "lib/kernels/step/tiled_forward.cuh"
#include "lib/kernels/step/tiled_inputs.cuh"

using namespace rnnc;

extern "C" __global__ void block(const __grid_constant__ ForwardArguments forward,
                                 const __grid_constant__ BackwardArguments backward) {
  block_forward::run(forward);
  block_backward::run(backward);
}

extern "C" __global__ void cluster(const __grid_constant__ ForwardArguments forward,
                                   const __grid_constant__ BackwardArguments backward) {
  cluster_forward::run(forward);
  cluster_backward::run(backward);
}

extern "C" __global__ void grid(const __grid_constant__ GridArguments<ForwardArguments> forward,
                                const __grid_constant__ GridArguments<BackwardArguments> backward) {
  grid_forward::run(forward);
  grid_backward::run(backward);
}

extern "C" __global__ void alternating_steps(const __grid_constant__ alternating::StepArgs step) {
  alternating::forward_step(step.workspace, step.step_idx);
  alternating::backward_step(step.workspace, step.step_idx);
  alternating::backward_end(step.workspace);
  alternating::advance(step.workspace, step.step_idx);
}

extern "C" __global__ void single_step(
    const __grid_constant__ step::ForwardStepArguments forward,
    const __grid_constant__ step::BackwardStepArguments backward) {
  step::pointwise_step(forward);
  step::fused_step<8>(forward);
  step::tiled_forward::run(forward);
  step::backward_step(backward);
  step::tiled_backward::run(backward);
  step::tiled_backward::inputs::run(backward);
}
