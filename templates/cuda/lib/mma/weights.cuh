// Words of R from global memory, for the A operand of the forward products.
#pragma once

#include "lib/mma/tf32.cuh"
#include "lib/ptx/ld_st.cuh"

namespace rnnc {

// The four words of a k_tile that a lane multiplies, from element k of a row of R on; zero if the
// row is not valid or beyond its end.
template <int head_dim>
RNNC_INLINE void load_weight_vector(u32 (&words)[4], const Element* row, int k, bool valid,
                                    Rounding& rounding) {
  if constexpr (head_dim * sizeof(Element) % 16 == 0) {
    const bool in_bounds = valid && k < head_dim;
    ld_global_v4(words, row + (in_bounds ? k : 0));
    repeat<4>([&](int i) { words[i] = prepare_weight(in_bounds ? words[i] : 0u, rounding); });
  } else {
    repeat<4>([&](int i) {
      words[i] = 0u;
      repeat<kPack>([&](int e) {
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
      });
    });
  }
}

}  // namespace rnnc
