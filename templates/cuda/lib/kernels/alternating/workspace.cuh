// What the kernels of an alternating plan have in common: its buffers, and the part of a step that is
// neither product. A thread works on one unit and batch row.
//
// Steps are captured in graphs, whose nodes cannot change. So what differs from call to call, the
// arguments and the number of the step, lies in device memory: `begin` writes it, `advance` counts
// the steps of a chunk. The states stay in `real` from step to step.
#pragma once

namespace rnnc {

// Buffers that live as long as the graphs. B batch rows, N heads, D units a head.
struct Work {
  u32 batch, heads, dim;
  void* arguments;                        // ForwardArguments or BackwardArguments
  int* first_step;                        // of the chunk
  real* states[kStates];                  // [B, N, D]: the states, or their gradients
  Element* factors[at_least_one(kSources)];  // what R multiplies: see factor_place
  union {
    real* products[at_least_one(kSources)];  // [N, B, D, pairs], or [N, pairs, B, D] of gradients
    const Element* weights[at_least_one(kSources)];  // R as fragments, where kOwnProduct
  };
  real* sums;                             // [kSums, B, N, D]: over the steps of a part
  SumOverTime* totals;                    // [kSums, B, N, D]: over all parts before it
};

template <typename Arguments>
struct Begin {
  Arguments arguments;
  Work work;
};

struct Step {
  Work work;
  int64 number;  // of the step in its chunk
};

// What a thread works on: unit d of head n in batch row b.
struct Place {
  u32 n, d, b;
  u32 unit;       // in [N, D]
  u32 row;        // in [B, N, D]
  bool given;

  // From sizes that come by value, in 32 bits: a division of 64 takes as long as the rest of a step.
  RNNC_MEMBER explicit Place(const Work& work) {
    const u32 plane = work.heads * work.dim;
    row = blockIdx.x * blockDim.x + threadIdx.x;
    b = row / plane;
    unit = row - b * plane;
    n = unit / work.dim;
    d = unit - n * work.dim;
    given = b < work.batch;
  }
  RNNC_MEMBER Place(const Work& work, u32 head, u32 own, u32 batch_row, bool exists) {
    n = head;
    d = own;
    b = batch_row;
    unit = n * work.dim + d;
    row = b * work.heads * work.dim + unit;
    given = exists && d < work.dim && b < work.batch;
  }
};

// K of a row of factors: with kOwnProduct it is padded with zeros to chunks.
constexpr u32 kFactorGranule = kOwnProduct ? 32 : 1;
constexpr u32 kTileRows = 16;  // batch rows that an instruction multiplies
RNNC_INLINE u32 factor_pitch(u32 dim) {
  return (dim + kFactorGranule - 1) / kFactorGranule * kFactorGranule;
}
RNNC_INLINE u32 row_tiles(u32 batch) {
  constexpr u32 rows = kTileRows * kRowTiles;  // of a block
  return (batch + rows - 1) / rows * kRowTiles;
}

// With kOwnProduct, factors are [2, N, tiles of 16 rows, pairs, pitch / 32 chunks, 512]: steps take
// turns, since blocks read what the last one wrote while others write. A chunk of a tile lies as the
// fragments of two instructions: [2, 32 lanes, 2 words, 2 rows, 2 of K], where lane 4 r + q has rows r
// and r + 8 and the words 4 q .. 4 q + 3, two an instruction.
RNNC_INLINE int64 factor_tile(const Work& work, u32 head, u32 tile, int64 step, int pairs) {
  const int64 turn = (step & 1) * work.heads + head;
  return (turn * row_tiles(work.batch) + tile) * pairs * kTileRows * factor_pitch(work.dim);
}
RNNC_INLINE u32 place_in_chunk(u32 row, u32 k) {
  const u32 word = k / 2, lane = row % 8 * 4 + word / 4;
  return (word % 4 / 2 * 32 + lane) * 8 + word % 2 * 4 + row / 8 * 2 + k % 2;
}

// Where the factor of an item lies for a step's product: a state, of which there is one, or the
// gradients of the gates of `pairs` pairs. The library's products take [N, pairs, B, D].
RNNC_INLINE int64 factor_place(const Work& work, const Place& place, int64 step, int pairs, int pair) {
  if constexpr (kOwnProduct) {
    const u32 k = pair * factor_pitch(work.dim) + place.d;
    return factor_tile(work, place.n, place.b / kTileRows, step, pairs) +
           k / kFactorGranule * (kTileRows * kFactorGranule) +
           place_in_chunk(place.b % kTileRows, place.d % kFactorGranule);
  } else {
    const int64 column = (int64{place.n} * pairs + pair) * work.batch + place.b;
    return column * work.dim + place.d;
  }
}

// Asks for data that the next step reads.
RNNC_INLINE void prefetch(const Element* at) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(at));
}

// Loads of what the step before has written, from L2: where steps overlap, a multiprocessor's L1 may
// hold what lay there earlier.
RNNC_INLINE int load_fresh(const int* from) {
  int value;
  asm volatile("ld.relaxed.gpu.global.s32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
  return value;
}
RNNC_INLINE unsigned long long load_fresh(const unsigned long long* from) {
  unsigned long long value;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
  return value;
}
RNNC_INLINE float load_fresh(const float* from) {
  float value;
  asm volatile("ld.relaxed.gpu.global.f32 %0, [%1];" : "=f"(value) : "l"(from) : "memory");
  return value;
}
RNNC_INLINE double load_fresh(const double* from) {
  double value;
  asm volatile("ld.relaxed.gpu.global.f64 %0, [%1];" : "=d"(value) : "l"(from) : "memory");
  return value;
}

RNNC_INLINE void advance(const Work& work, int64 steps) {
  if (blockIdx.x == 0 && threadIdx.x == 0) *work.first_step += static_cast<int>(steps);
}

}  // namespace rnnc
