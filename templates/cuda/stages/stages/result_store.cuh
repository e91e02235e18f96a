// ResultStore: stores of one tensor of a step's results, each thread's at an address that it keeps.
//
// NOTE: addresses are kept from step to step, so that the compiler cannot compute them again in each:
// an addition takes one instruction, an address from a step, a row and a unit takes eight.
#pragma once

#include "lib/cell/time.cuh"
#include "lib/stages/item.cuh"
#include "lib/stages/predicated.cuh"

namespace rnnc {

// `rows` rows of n values per unit.
template <int n, int rows>
struct ResultStore {
  char* at[rows];  // of the thread's first unit, in the step that was stored last
  int64 stride;    // from a step to the one that is stored after it, in bytes

  // The tensor is null or [T, B, N, D, n], of `step_size` items per step. offset_bytes[j] is the
  // offset of the thread's first unit of row j in a step of one value per unit. The first step to
  // store lies at first_step in memory, and the others come in the order of `step_stride`.
  RNNC_MEMBER void begin(Element* tensor, int64 first_step, int64 step_size, int64 step_stride,
                         const int64 (&offset_bytes)[rows]) {
    stride = step_stride * n * int64{sizeof(Element)};
    repeat<rows>([&](int j) {
      const int64 first = first_step * step_size * int64{sizeof(Element)} + offset_bytes[j];
      at[j] = reinterpret_cast<char*>(tensor) + first * n - stride;
    });
  }
  // Keeps the stride in registers, else the compiler multiplies in each step. NOTE: backwards without
  // masks do not call this: LEM of 12 x 64 took 0.41 us per step in place of 0.40.
  RNNC_MEMBER void keep_stride() {
    advance();
    stride = pin(stride);
    repeat<rows>([&](int j) { at[j] -= stride; });
  }
  // To the next step.
  RNNC_MEMBER void advance() {
    repeat<rows>([&](int j) { at[j] += stride; });
  }
  // The values of unit `unit`, from the thread's first one, of row j.
  RNNC_MEMBER void store(int holds, const Vec<Element, n>& vec, int j, int unit) const {
    using Values = Vec<Element, n>;
    if constexpr (n > 0) {
      using Access = typename Values::Access;
      repeat<Values::kWords / Values::kAccessWords>([&](int i) {
        typename Values::Word access[Values::kAccessWords];
        repeat<Values::kAccessWords>(
            [&](int k) { access[k] = vec.words[i * Values::kAccessWords + k]; });
        st_global_if(holds, reinterpret_cast<Access*>(at[j] + unit * Values::kBytes) + i, access);
      });
    }
  }
};

}  // namespace rnnc
