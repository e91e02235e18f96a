// The forward of a single step of few batch rows, products included: a warp has a unit, and its
// lanes share K. Weights are read as the module stores them, once per `rows` batch rows.
#pragma once

#include "lib/kernels/step/forward.cuh"

namespace rnnc::step {

constexpr int kLanes = 32;
constexpr int kWidth = 16 / static_cast<int>(sizeof(Element));  // elements per load

// The gates of a unit in `rows` batch rows, as far as a lane has summed them.
template <int rows>
struct PartialGates {
  real value[rows][at_least_one(Cell::kGates)] = {};

  // Adds the products of `matrices` rows of weights with a vector per batch row. matrix(i) is the
  // row of weights i and gate(i) the gate that it adds to.
  template <int matrices, typename Matrix, typename Gate>
  RNNC_MEMBER void add(const Matrix& matrix, const Gate& gate, const Element* vectors, int64 pitch,
                       int rows_left, int size) {
    const int lane = threadIdx.x % kLanes;
    const bool aligned = size % kWidth == 0 && pitch % kWidth == 0 &&
                         reinterpret_cast<u64>(matrix(0)) % 16 == 0 &&
                         reinterpret_cast<u64>(vectors) % 16 == 0;
    if (!aligned) {
      for (int k = lane; k < size; k += kLanes) {
        repeat<rows>([&](int row) {
          if (row >= rows_left) return;
          const real factor = to_real(vectors[row * pitch + k]);
          repeat<matrices>(
              [&](int i) { value[row][gate(i)] += to_real(matrix(i)[k]) * factor; });
        });
      }
      return;
    }
    // All loads of a round are in flight at once.
    constexpr int kLoads = maximum(1, minimum(4, 16 / matrices));
    constexpr int kStride = kLanes * kWidth;
    for (int first = lane * kWidth; first < size; first += kLoads * kStride) {
      Vec<Element, kWidth> weights[kLoads][matrices];
      repeat<kLoads>([&](int load) {
        const int k = first + load * kStride;
        repeat<matrices>([&](int i) {
          if (k < size) weights[load][i].load(matrix(i) + k);
        });
      });
      repeat<kLoads>([&](int load) {
        const int k = first + load * kStride;
        if (k >= size) return;
        repeat<rows>([&](int row) {
          Vec<Element, kWidth> factors;
          factors.load(vectors + minimum(row, rows_left - 1) * pitch + k);
          repeat<matrices>([&](int i) {
            repeat<kWidth>([&](int j) { value[row][gate(i)] += weights[load][i][j] * factors[j]; });
          });
        });
      });
    }
  }

  // The sums of all lanes, of the batch row whose number is the lane's.
  RNNC_MEMBER void total(Gates& gate) {
    const int lane = threadIdx.x % kLanes;
    repeat<rows>([&](int row) {
      repeat<Cell::kGates>([&](int g) {
        real sum = value[row][g];
        repeat<5>([&](int bit) { sum += __shfl_xor_sync(~0u, sum, 1 << bit); });
        if (lane == row) gate[g] = sum;
      });
    });
  }
};

template <int rows>
RNNC_INLINE void fused_step(const ForwardStepArguments& a) {
  const int lane = threadIdx.x % kLanes;
  const int64 plane = a.heads * a.dim;
  const int64 unit = int64{blockIdx.x} * (blockDim.x / kLanes) + threadIdx.x / kLanes;
  if (unit >= plane) return;  // a whole warp
  const int64 first_row = int64{blockIdx.y} * rows;
  const int rows_left = static_cast<int>(a.batch - first_row);
  const int64 head = static_cast<u32>(unit) / static_cast<u32>(a.dim);
  const int input = static_cast<int>(a.input), dim = static_cast<int>(a.dim);

  PartialGates<rows> partial;
  if constexpr (Cell::kInputGates > 0) {
    partial.template add<Cell::kInputGates>(
        [&](int i) { return a.W + (i * plane + unit) * input; }, [](int i) { return i; },
        a.x + first_row * input, input, rows_left, input);
  }
  unroll<Cell::kSources>([&](auto source_index) {
    constexpr int source = decltype(source_index)::value;
    constexpr int first = kSourceFirstPair[source];
    partial.template add<kSourcePairs[source]>(
        [&](int i) { return a.R + (kPairMatrix[first + i] * plane + unit) * dim; },
        [](int i) { return kPairGate[first + i]; },
        a.before[kSourceState[source]] + first_row * plane + head * dim, plane, rows_left, dim);
  });
  Gates gate = {};
  partial.total(gate);
  if (lane < minimum(rows, rows_left)) {
    finish_item(a, plane, unit, (first_row + lane) * plane + unit, gate);
  }
}

}  // namespace rnnc::step
