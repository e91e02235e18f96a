// Matrix instructions by the layout of their fragments (PTX ISA, "Matrix Fragments"), in double.
#pragma once
#include "lib/ptx/element.cuh"
namespace rnnc {
// element(word, i): number i of the numbers in a word.
template <int per_word, typename Number>
void multiply_fragments(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1, const Number& number) {
  const u32 given[6] = {a[0], a[1], a[2], a[3], b0, b1};
  emulation::exchange(given, [&] {
    const unsigned lane = emulation::current % 32, line = lane / 4, column = lane % 4 * 2;
    for (int i = 0; i < 4; ++i) {
      double sum = c[i];
      for (int part = 0; part < 2; ++part)
        for (int q = 0; q < 4; ++q) {
          const u32 row = emulation::words_of(line * 4 + q)[part * 2 + i / 2];
          const u32 other = emulation::words_of((column + i % 2) * 4 + q)[4 + part];
          for (int e = 0; e < per_word; ++e) sum += double(number(row, e)) * number(other, e);
        }
      c[i] = static_cast<float>(sum);
    }
  });
}
template <typename T>
void mma_m16n8k16(T, float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  multiply_fragments<2>(c, a, b0, b1, [](u32 word, int i) {
    return to_real(T{static_cast<u16>(word >> 16 * i)});
  });
}
inline void mma_m16n8k8_tf32(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  multiply_fragments<1>(c, a, b0, b1, [](u32 word, int) { return std::bit_cast<float>(word); });
}
inline u32 movmatrix_trans(u32 word) {
  u32 found = 0;
  emulation::exchange({word}, [&] {
    const unsigned lane = emulation::current % 32, row = lane / 4, pair = lane % 4 * 2;
    for (unsigned e = 0; e < 2; ++e) {
      const u32 other = emulation::words_of((pair + e) * 4 + row / 2)[0];
      found |= (other >> 16 * (row % 2) & 0xffffu) << 16 * e;
    }
  });
  return found;
}
inline void ldmatrix_x2_trans(u32 (&words)[2], const char* row) {
  u32 given[4];
  memcpy(given, row, sizeof given);
  emulation::exchange(given, [&] {
    const unsigned lane = emulation::current % 32, column = lane / 4, pair = lane % 4 * 2;
    for (int matrix = 0; matrix < 2; ++matrix) {
      u16 elements[2];
      for (unsigned e = 0; e < 2; ++e)
        memcpy(&elements[e],
               reinterpret_cast<u16*>(emulation::words_of(matrix * 8 + pair + e)) + column, 2);
      memcpy(&words[matrix], elements, 4);
    }
  });
}
}  // namespace rnnc
