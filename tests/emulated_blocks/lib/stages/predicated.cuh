#pragma once
#include "lib/ptx/vec.cuh"
namespace rnnc {
template <typename T, int n>
void st_global_if(int holds, void* to, const T (&w)[n]) {
  if (reinterpret_cast<u64>(to) % (holds ? sizeof w : 1)) std::abort();
  if (holds) memcpy(to, w, sizeof w);
}
}  // namespace rnnc
