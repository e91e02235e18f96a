// Words of R from global memory, for the A operand of the forward products.
#pragma once

#include "lib/mma/tf32.cuh"
#include "lib/ptx/ld_st.cuh"

namespace rnnc {

// Four words of R: word i holds the elements k[i] .. k[i] + kPack - 1 of the row that starts at
// matrix[i] + row[i]. It is zero if it is not valid or beyond the row's end. `rounding` includes
// them.
template <int head_dim>
RNNC_INLINE void load_weights(u32 (&words)[4], const Element* const (&matrix)[4],
                              const int (&row)[4], const int (&k)[4], const bool (&valid)[4],
                              Rounding& rounding) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const bool in_bounds = valid[i] && k[i] < head_dim;
    const Element* from = matrix[i] + (in_bounds ? row[i] + k[i] : 0);
    if constexpr (head_dim % kPack == 0) {
      const u32 word = ld_global_u32(from);
      words[i] = prepare_weight(in_bounds ? word : 0u, rounding);
    } else {
      const u16 first = ld_global_u16(from);
      const u16 second = ld_global_u16(from + (k[i] + 1 < head_dim));
      words[i] =
          in_bounds ? first | (k[i] + 1 < head_dim ? static_cast<u32>(second) << 16 : 0u) : 0u;
    }
  }
}

// The four words of a k_tile that a lane multiplies, from element k of a row of R on; zero if the
// row is not valid or beyond its end.
template <int head_dim>
RNNC_INLINE void load_weight_vector(u32 (&words)[4], const Element* row, int k, bool valid,
                                    Rounding& rounding) {
  if constexpr (head_dim * sizeof(Element) % 16 == 0) {
    const bool in_bounds = valid && k < head_dim;
    ld_global_v4(words, row + (in_bounds ? k : 0));
#pragma unroll
    for (int i = 0; i < 4; ++i) words[i] = prepare_weight(in_bounds ? words[i] : 0u, rounding);
  } else {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      words[i] = 0u;
#pragma unroll
      for (int e = 0; e < kPack; ++e) {
        const int element = k + i * kPack + e;
        const bool in_bounds = valid && element < head_dim;
        const Element* from = row + (in_bounds ? element : 0);
        if constexpr (kPack == 1) {
          const u32 word = ld_global_u32(from);
          words[i] = prepare_weight(in_bounds ? word : 0u, rounding);
        } else {
          const u16 half = ld_global_u16(from);
          words[i] |= in_bounds ? static_cast<u32>(half) << 16 * e : 0u;
        }
      }
    }
  }
}

}  // namespace rnnc
