// Where the fragments of R of a SplitK product lie, and how they are loaded.
#pragma once

#include "lib/mma/tf32.cuh"

namespace rnnc {

constexpr int kStreamStages = 8;  // streamed fragments in flight per warp; a power of two

enum class Memory { kRegisters, kShared, kGlobal };

// Where R of one of a warp's k_tiles lies. Streamed k_tiles are spread evenly among the others,
// which are multiplied while they are in flight; the first of the others lie in registers.
RNNC_CONSTEXPR Memory memory_of(int k_tile, int warp_k_tiles, int in_registers, int streamed) {
  const int before = k_tile * streamed / warp_k_tiles;  // streamed k_tiles before this one
  if ((k_tile + 1) * streamed / warp_k_tiles > before) return Memory::kGlobal;
  return k_tile - before < in_registers ? Memory::kRegisters : Memory::kShared;
}

// A row of R that a lane multiplies: its offset in elements, and whether it exists.
struct RowRef {
  int64 offset;
  bool valid;
};

// A word of R, zero if it is not valid; `rounding` includes it. NOTE: predicated, since a select of
// addresses would keep one per word in registers; and no .nc, so that a barrier between two holds
// the second. `full`: both of its elements are within the row.
template <int head_dim>
RNNC_INLINE u32 ld_global_weight(const Element* from, bool valid, bool full, Rounding& rounding) {
  u32 word;
  if constexpr (head_dim % kPack == 0) {
    asm volatile(
        "{ .reg .pred valid;\n"
        "setp.ne.u32 valid, %2, 0;\n"
        "mov.u32 %0, 0;\n"
        "@valid ld.global.u32 %0, [%1]; }"
        : "=r"(word)
        : "l"(from), "r"(static_cast<u32>(valid))
        : "memory");
    return prepare_weight(word, rounding);
  } else {
    asm volatile(
        "{ .reg .pred valid, full;\n"
        ".reg .u16 first, second;\n"
        "setp.ne.u32 valid, %2, 0;\n"
        "setp.ne.u32 full, %3, 0;\n"
        "mov.u16 first, 0;\n"
        "mov.u16 second, 0;\n"
        "@valid ld.global.u16 first, [%1];\n"
        "@full ld.global.u16 second, [%1 + 2];\n"
        "mov.b32 %0, {first, second}; }"
        : "=r"(word)
        : "l"(from), "r"(static_cast<u32>(valid)), "r"(static_cast<u32>(valid && full))
        : "memory");
    return word;
  }
}

// NOTE: no memory clobber, so that the compiler may move it among the products.
RNNC_INLINE void ld_shared_fragment(u32 (&words)[4], u32 from) {
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(from));
}

}  // namespace rnnc
