#pragma once
#include "lib/ptx/element.cuh"
namespace rnnc {
template <typename T, int n>
struct Vec {
  T values[n];
  void load(const void* from) { memcpy(values, from, sizeof values); }
  void store(void* to) const { memcpy(to, values, sizeof values); }
  real operator[](int i) const { return to_real(values[i]); }
  void set(const real (&from)[n]) {
    for (int i = 0; i < n; ++i) values[i] = to_element<T>(from[i]);
  }
  void clear_unless(bool keep) {
    if (!keep) memset(values, 0, sizeof values);
  }
};
template <typename T>
struct Vec<T, 0> {
  void load(const void*) {}
  void store(void*) const {}
  real operator[](int) const { return 0; }
  void set(const real (&)[1]) {}
  void clear_unless(bool) {}
};
}  // namespace rnnc
