// Unweighted: the inputs of the cell that no weight multiplies. They are the last gates of an item;
// the backward reads them again.
//
// A tensor has a stride for each axis, 0 where all have one value, so nothing is copied to its full
// shape. Values of a step are loaded one step ahead or more here, several steps ahead by
// lib/cell/unweighted_copy.cuh.
#pragma once

#include "lib/cell/item.cuh"
#include "lib/cell/time.cuh"
#include "lib/ptx/launder.cuh"
#include "lib/ptx/ld_st.cuh"

namespace rnnc {

#ifdef RNNC_UNWEIGHTED

// How many steps before its load a value is brought into L2; a backward counts steps down.
RNNC_CONSTEXPR int l2_steps_ahead(const ForwardArguments&) { return 4; }
RNNC_CONSTEXPR int l2_steps_ahead(const BackwardArguments&) { return -4; }

// Of `rows` batch rows of `units` units.
template <int units, int rows>
struct Unweighted {
  int row[rows], unit[units], head;  // in the batch; in the head
  int offset_bytes[units][rows];     // in a copied step, if rows are copied
  Element value[units][rows][Cell::kUnweighted];  // of the step that comes next

  RNNC_MEMBER void place_row(int j, int64 batch_row) { row[j] = static_cast<int>(batch_row); }
  RNNC_MEMBER void place_unit(int i, int64 of_head, int64 head_unit) {
    unit[i] = static_cast<int>(head_unit);
    head = static_cast<int>(of_head);
  }
  // NOTE: laundered, or each step would derive it from the thread's index again, ahead of its reads.
  RNNC_MEMBER void place_copy(int i, int j, int offset) { offset_bytes[i][j] = launder(offset); }
  // From copied rows of a step; those of an input follow those of another after so many bytes.
  RNNC_MEMBER void read(const char* rows_of_all, int input_bytes) {
    repeat<units>([&](int i) {
      repeat<rows>([&](int j) {
        repeat<Cell::kUnweighted>([&](int k) {
          const char* const from = rows_of_all + k * input_bytes + offset_bytes[i][j];
          value[i][j][k] = *reinterpret_cast<const Element*>(from);
        });
      });
    });
  }

  // Of step t, if there is one.
  template <typename Arguments>
  RNNC_MEMBER void load(const Arguments& a, const TimeOrder& time, int64 t, int64 steps) {
    if (t < 0 || t >= steps) return;
    const UnweightedArguments& given = a.unweighted;
    repeat<Cell::kUnweighted>([&](int k) {
      const Element* const step =
          given.tensor[k] + time.at(t) * given.time[k] + head * given.head[k];
      repeat<units>([&](int i) {
        repeat<rows>([&](int j) {
          const Element* const at = step + row[j] * given.row[k] + unit[i] * given.unit[k];
          value[i][j][k] = *at;
          // A step is shorter than a round trip to memory.
          const int64 ahead = l2_steps_ahead(a);
          if (t + ahead >= 0 && t + ahead < steps) {
            prefetch_l2(at + time.stride(given.time[k]) * ahead);
          }
        });
      });
    });
  }
  // As the gates that they are.
  RNNC_MEMBER void set(Gates& gate, int i, int j) const {
    repeat<Cell::kUnweighted>([&](int k) {
      gate[Cell::kGates - Cell::kUnweighted + k] = to_real(value[i][j][k]);
    });
  }
  // Behind the saved values, for the backward.
  template <int n>
  RNNC_MEMBER void set_read(real (&values)[n], int i, int j) const {
    repeat<Cell::kUnweighted>(
        [&](int k) { values[Cell::kSaved + k] = to_real(value[i][j][k]); });
  }
};

#else

template <int units, int rows>
struct Unweighted {
  RNNC_MEMBER void place_row(int, int64) {}
  RNNC_MEMBER void place_unit(int, int64, int64) {}
  RNNC_MEMBER void place_copy(int, int, int) {}
  RNNC_MEMBER void read(const char*, int) {}
  template <typename Arguments>
  RNNC_MEMBER void load(const Arguments&, const TimeOrder&, int64, int64) {}
  RNNC_MEMBER void set(Gates&, int, int) const {}
  template <int n>
  RNNC_MEMBER void set_read(real (&)[n], int, int) const {}
};

#endif

}  // namespace rnnc
