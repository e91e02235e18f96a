// The backward map of a cell without stages. The items of block and cluster plans name it, and
// nothing calls it in a cell with stages.
#pragma once

#include "lib/cell/items_backward.cuh"

namespace rnnc {

__device__ void apply_pointwise_backward(const ReadValues& saved, const States& before,
                                         const States& after, const Params& param,
                                         States& d_states, Gates& d_gates, Params& d_params);

}  // namespace rnnc
