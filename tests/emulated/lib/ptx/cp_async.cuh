// Copies are there only after a wait.
#pragma once
#include <deque>

#include "lib/ptx/types.cuh"
namespace rnnc {
struct Copy {
  char* to;
  char bytes[16];
};
inline std::vector<std::deque<std::vector<Copy>>> copies(1024);  // of each lane, by group
inline std::deque<std::vector<Copy>>& groups() {
  auto& found = copies[threadIdx.x];
  if (found.empty()) found.emplace_back();
  return found;
}
inline void cp_async_16_or_zero(char* to, const void* from, int bytes) {
  Copy copy{to, {}};
  if (reinterpret_cast<u64>(from) % 16 || reinterpret_cast<u64>(to) % 16) std::abort();
  if (bytes) memcpy(copy.bytes, from, bytes);
  groups().back().push_back(copy);
}
template <int bytes>
void cp_async(char* to, const void* from) {
  memcpy(to, from, bytes);
}
inline void cp_async_commit() { groups().emplace_back(); }
template <int pending>
void cp_async_wait() {
  auto& all = groups();
  while (all.size() > pending + 1) {
    for (const Copy& copy : all.front()) memcpy(copy.to, copy.bytes, sizeof copy.bytes);
    all.pop_front();
  }
}
}  // namespace rnnc
