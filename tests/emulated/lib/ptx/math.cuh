#pragma once
#include "lib/ptx/types.cuh"
namespace rnnc {
inline real literal(double x) { return static_cast<real>(x); }
template <int n>
real power(real x) {
  return std::pow(x, n);
}
using std::exp, std::expm1, std::log, std::log1p, std::tanh, std::abs, std::sqrt, std::sin;
using std::cos, std::erf;
inline float tanh_approx(float x) { return std::tanh(x); }
inline real sigmoid(real x) { return 1 / (1 + std::exp(-x)); }
}  // namespace rnnc
