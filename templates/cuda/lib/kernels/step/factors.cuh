// What the products of a single step multiply: x, and the states that dense gates read. Each is a
// factor, of several matrices.
#pragma once

#include "lib/kernels/step/arguments.cuh"
#include "lib/mma/tf32.cuh"
#include "lib/ptx/cp_async.cuh"

namespace rnnc::step {

constexpr bool kHasInput = Cell::kInputGates > 0;
constexpr int kFactors = kHasInput + Cell::kSources;

RNNC_CONSTEXPR int source_of(int factor) { return factor - kHasInput; }
RNNC_CONSTEXPR bool is_input(int factor) { return kHasInput && factor == 0; }
RNNC_CONSTEXPR int matrices_of(int factor) {
  return is_input(factor) ? Cell::kInputGates : kSourcePairs[source_of(factor)];
}
// The place of matrix i of a factor in W or R, and its gate.
RNNC_CONSTEXPR int place_of(int factor, int i) {
  return is_input(factor) ? i : kPairMatrix[kSourceFirstPair[source_of(factor)] + i];
}
RNNC_CONSTEXPR int gate_of(int factor, int i) {
  return is_input(factor) ? i : kPairGate[kSourceFirstPair[source_of(factor)] + i];
}
RNNC_CONSTEXPR int most_matrices() {
  int most = 1;
  for (int factor = 0; factor < kFactors; ++factor) most = maximum(most, matrices_of(factor));
  return most;
}


constexpr int kPieceBytes = 16;
constexpr int kPiece = kPieceBytes / static_cast<int>(sizeof(Element));  // elements per copy

// Copies a piece of a line to shared memory, of which `count` elements exist; the others are zero.
// `aligned`: all lines begin at multiples of a piece, so that a piece exists or does not.
template <bool aligned>
RNNC_INLINE void copy_piece(char* to, const Element* from, int count) {
  if constexpr (aligned) {
    cp_async_16_or_zero(to, from, count > 0 ? kPieceBytes : 0);
  } else {
#pragma unroll 1
    for (int e = 0; e < kPiece; ++e) {
      reinterpret_cast<Element*>(to)[e] = e < count ? from[e] : Element{};
    }
  }
}

template <typename T>
RNNC_INLINE void multiply_add(T element, float (&sum)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  if constexpr (sizeof(T) == 2) {
    mma_m16n8k16(element, sum, a, b0, b1);
  } else {
    mma_m16n8k8_tf32(sum, a, b0, b1);
  }
}
// A word as the instruction takes it.
RNNC_INLINE u32 as_factor(u32 word) { return kPack == 1 ? round_to_tf32(word) : word; }

}  // namespace rnnc::step
