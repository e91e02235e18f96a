// Copies are there only after a wait.
#pragma once
#include <deque>

#include "lib/ptx/ld_st.cuh"
namespace rnnc {
struct Copy {
  char *to, bytes[16];
  int count;
};
inline std::vector<std::deque<std::vector<Copy>>> copies;  // of each lane, by group
inline std::deque<std::vector<Copy>>& groups() {
  if (copies.size() < emulation::lanes.size()) copies.resize(emulation::lanes.size());
  auto& found = copies[emulation::at];
  if (found.empty()) found.emplace_back();
  return found;
}
template <int bytes>
void cp_async(char* to, const void* from) {
  if (reinterpret_cast<u64>(from) % bytes || reinterpret_cast<u64>(to) % bytes) std::abort();
  Copy copy{to, {}, bytes};
  memcpy(copy.bytes, from, bytes);
  groups().back().push_back(copy);
}
template <int offset = 0>
void cp_async_16(u32 to, const char* from) {
  cp_async<16>(shared + to, from + offset);
}
inline void cp_async_16_or_zero(char* to, const void* from, int bytes) {
  if (reinterpret_cast<u64>(from) % 16 || reinterpret_cast<u64>(to) % 16) std::abort();
  Copy copy{to, {}, 16};
  memcpy(copy.bytes, from, bytes);
  groups().back().push_back(copy);
}
inline void cp_async_4_or_zero(char* to, const char* from, bool there) {
  if (reinterpret_cast<u64>(from) % 4 || reinterpret_cast<u64>(to) % 4) std::abort();
  Copy copy{to, {}, 4};
  if (there) memcpy(copy.bytes, from, 4);
  groups().back().push_back(copy);
}
template <int bytes>
void cp_async_if(int place, char* to, const char* from) {
  if (place >= 0) cp_async<bytes>(to, from);
}
template <int bytes, int offset>
void cp_async_if(int there, u32 to, const char* from) {
  if (there >= 0) cp_async<bytes>(shared + to + offset, from);
}
inline void cp_async_commit() { groups().emplace_back(); }
template <int pending>
void cp_async_wait() {
  auto& all = groups();
  while (all.size() > pending + 1) {
    for (const Copy& copy : all.front()) memcpy(copy.to, copy.bytes, copy.count);
    all.pop_front();
  }
}
}  // namespace rnnc
