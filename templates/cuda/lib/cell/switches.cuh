// The switches that a generated source may define ahead of all headers, as constants.
//
// Code that only some sources can compile stands between #ifdef and #endif beside its use.
#pragma once

namespace rnnc {

// Whether batch rows have lengths and resets.
#ifdef RNNC_MASKED
constexpr bool kMasked = true;
#else
constexpr bool kMasked = false;
#endif

// Reset values may differ between steps. Then they are either in shared memory ahead of each step
// (lib/copy/reset_copy.cuh), or late: loaded where rows restart.
#ifdef RNNC_RESETS_AHEAD
constexpr bool kResetsAhead = true;
#else
constexpr bool kResetsAhead = false;
#endif
#ifdef RNNC_RESETS_LATE
constexpr bool kResetsLate = true;
#else
constexpr bool kResetsLate = false;
#endif

// Whether a backward computes gates again, since the forward saved states alone. The kernels of other
// plans than walks and scans get such gates ready (lib/kernels/walk/read_values.cuh).
#ifdef RNNC_GATES_AGAIN
constexpr bool kGatesAgain = true;
#else
constexpr bool kGatesAgain = false;
#endif

// Whether the units of a step's row of each input that no weight multiplies are contiguous, and
// aligned as those of a state. So they are where calls draw all such inputs.
#ifdef RNNC_UNWEIGHTED_ROWS
constexpr bool kUnweightedRows = true;
#else
constexpr bool kUnweightedRows = false;
#endif

// Whether the cell runs from the last step in memory to the first; or whether the second half of
// the heads does, which is the other direction of a layer.
#ifdef RNNC_REVERSE
constexpr bool kReverse = true;
#else
constexpr bool kReverse = false;
#endif
#ifdef RNNC_REVERSE_HALF
constexpr bool kBothDirections = true;
#else
constexpr bool kBothDirections = false;
#endif

}  // namespace rnnc
