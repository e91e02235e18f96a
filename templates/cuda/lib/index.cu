// Every header of the library with an example cell: what an editor opens, and a test compiles.
//
// Here all switches are defined (lib/cell/switches.cuh): rows have lengths and resets, layers hand
// over chunks of steps, an input has no weight. plain/index.cu includes this file for the bodies of
// a source without switches, and for the alternating kernels that leave the product to the matrix
// library. Each header has every line in one of the two.
#include "example/lstm.cuh"

#ifndef RNNC_PLAIN

#include "lib/kernels/alternating/fused_backward.cuh"
#include "lib/kernels/alternating/fused_forward.cuh"

#else

#include "lib/kernels/alternating/library_backward.cuh"
#include "lib/kernels/alternating/library_forward.cuh"

#endif

#include "lib/kernels/block_backward.cuh"
#include "lib/kernels/block_forward.cuh"
#include "lib/kernels/cluster_backward.cuh"
#include "lib/kernels/cluster_forward.cuh"
#include "lib/kernels/grid_backward.cuh"
#include "lib/kernels/grid_forward.cuh"

#include "lib/kernels/scan/backward.cuh"
#include "lib/kernels/scan/forward.cuh"

#include "lib/kernels/step/backward.cuh"
#include "lib/kernels/step/fused_forward.cuh"
#include "lib/kernels/step/tiled_backward.cuh"
#include "lib/kernels/step/tiled_forward.cuh"
#include "lib/kernels/step/tiled_inputs.cuh"

#include "lib/kernels/walk/backward.cuh"
#include "lib/kernels/walk/forward.cuh"

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

extern "C" __global__ void walk(const __grid_constant__ ForwardArguments forward,
                                const __grid_constant__ BackwardArguments backward) {
  walk_forward::run(forward);
  walk_backward::run(backward);
}

extern "C" __global__ void scanned(
    const __grid_constant__ scan::ScanArguments<ForwardArguments> forward,
    const __grid_constant__ scan::ScanArguments<BackwardArguments> backward) {
  scan_forward::run(forward);
  scan_backward::run(backward);
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
