// cp.async: copies from global to shared memory that hold no registers. The copies between two
// commits form a group; the groups of a thread complete in order.
#pragma once

#include "lib/ptx/ld_st.cuh"

namespace rnnc {

// 16 bytes. NOTE: the offset is an immediate, or a loop would keep one address per copy in
// registers.
template <int offset = 0>
RNNC_INLINE void cp_async_16(u32 to, const char* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1 + %2], 16;" ::"r"(to), "l"(from), "n"(offset)
               : "memory");
}
template <int bytes>
RNNC_INLINE void cp_async(char* to, const char* from) {
  const u32 address = shared_address(to);
  if constexpr (bytes == 16) {
    cp_async_16(address, from);
  } else if constexpr (bytes >= 4) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(address), "l"(from), "n"(bytes)
                 : "memory");
  } else {
    // The instruction copies 4 bytes or more; rows of an odd number of two-byte elements need 2.
    *reinterpret_cast<u16*>(to) = __ldg(reinterpret_cast<const u16*>(from));
  }
}
// The same into shared memory at an address and an immediate offset, if `there` is not negative.
// NOTE: without a branch of C++, and the address in a register of its own, so that copies which
// follow each other need not wait until those before have read it.
template <int bytes, int offset>
RNNC_INLINE void cp_async_if(int there, u32 to, const char* from) {
  if constexpr (bytes == 16) {
    asm volatile(
        "{\n.reg .pred copies;\nsetp.ge.s32 copies, %2, 0;\n"
        "@copies cp.async.cg.shared.global [%0 + %3], [%1], 16; }" ::"r"(to),
        "l"(from), "r"(there), "n"(offset)
        : "memory");
  } else if constexpr (bytes >= 4) {
    asm volatile(
        "{\n.reg .pred copies;\nsetp.ge.s32 copies, %2, 0;\n"
        "@copies cp.async.ca.shared.global [%0 + %3], [%1], %4; }" ::"r"(to),
        "l"(from), "r"(there), "n"(offset), "n"(bytes)
        : "memory");
  } else {
    if (there >= 0) cp_async<bytes>(shared_pointer(to + offset), from);
  }
}
// 16 bytes, of which those after the first `bytes`, 0 to 16, are zero and are not read.
RNNC_INLINE void cp_async_16_or_zero(char* to, const void* from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from),
               "r"(bytes)
               : "memory");
}
// 4 bytes, or zeros, and then none is read.
RNNC_INLINE void cp_async_4_or_zero(char* to, const char* from, bool there) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(to)), "l"(from),
               "r"(there ? 4 : 0)
               : "memory");
}
RNNC_INLINE void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits until at most `pending` groups of this thread are in flight.
template <int pending>
RNNC_INLINE void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

}  // namespace rnnc
