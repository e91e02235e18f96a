// Stores with a predicate in place of a branch.
//
// NOTE: the compiler makes a branch of several stores in one condition, and it moves nothing across
// a branch. Stores of results took 100 cycles of a block's step, between a product and what waited
// for it. With predicates they take the cycles in which shuffles and barriers wait.
#pragma once

#include "lib/ptx/vec.cuh"

namespace rnnc {

RNNC_INLINE void st_global_if(int holds, void* to, const u16 (&w)[1]) {
  asm volatile(
      "{\n.reg .pred stores;\nsetp.ne.s32 stores, %2, 0;\n"
      "@stores st.global.u16 [%0], %1; }" ::"l"(to),
      "h"(w[0]), "r"(holds)
      : "memory");
}
RNNC_INLINE void st_global_if(int holds, void* to, const u32 (&w)[1]) {
  asm volatile(
      "{\n.reg .pred stores;\nsetp.ne.s32 stores, %2, 0;\n"
      "@stores st.global.u32 [%0], %1; }" ::"l"(to),
      "r"(w[0]), "r"(holds)
      : "memory");
}
RNNC_INLINE void st_global_if(int holds, void* to, const u32 (&w)[2]) {
  asm volatile(
      "{\n.reg .pred stores;\nsetp.ne.s32 stores, %3, 0;\n"
      "@stores st.global.v2.u32 [%0], {%1, %2}; }" ::"l"(to),
      "r"(w[0]), "r"(w[1]), "r"(holds)
      : "memory");
}
RNNC_INLINE void st_global_if(int holds, void* to, const u32 (&w)[4]) {
  asm volatile(
      "{\n.reg .pred stores;\nsetp.ne.s32 stores, %5, 0;\n"
      "@stores st.global.v4.u32 [%0], {%1, %2, %3, %4}; }" ::"l"(to),
      "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]), "r"(holds)
      : "memory");
}

}  // namespace rnnc
