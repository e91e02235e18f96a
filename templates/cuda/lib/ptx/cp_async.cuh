// Copies from memory to shared memory that run on their own (cp.async) and hold no registers. Those
// between two commits are a group; the groups of a thread complete in order.
#pragma once

namespace rnnc {

// NOTE: an offset that is no part of the address, or a loop would keep a sum for each in registers.
template <int offset = 0>
RNNC_INLINE void copy_vector_async(u32 to, const char* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1 + %2], 16;" ::"r"(to), "l"(from), "n"(offset)
               : "memory");
}
template <int bytes>
RNNC_INLINE void copy_async(char* to, const char* from) {
  const u32 shared = static_cast<u32>(__cvta_generic_to_shared(to));
  if constexpr (bytes == 16) {
    copy_vector_async(shared, from);
  } else if constexpr (bytes >= 4) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(shared), "l"(from), "n"(bytes)
                 : "memory");
  } else {
    // Rows of an odd number of two-byte elements are too fine for it.
    *reinterpret_cast<u16*>(to) = __ldg(reinterpret_cast<const u16*>(from));
  }
}
RNNC_INLINE void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits until at most `pending` groups of this thread are on their way.
template <int pending>
RNNC_INLINE void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

}  // namespace rnnc
