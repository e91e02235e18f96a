// What a warp's steps read, on its way to shared memory while the block is busy with a tile before.
//
// A warp of one head copies rows, the elements of a step of all its lanes, in pieces of 16 bytes.
// That takes fewer instructions than a load per lane and step, and no registers while the data is in
// flight. Other warps load their elements themselves when they need them.
#pragma once

#include "lib/kernels/scan/tile.cuh"
#include "lib/ptx/cp_async.cuh"

namespace rnnc::scan {

// Steps of n elements per lane: those of all parts of a warp, and `more` behind them.
template <int n, int more = 0>
struct Rows {
  static constexpr int rows = kWarpSteps + more;
  static constexpr int kLaneBytes = n * static_cast<int>(sizeof(Element));
  static constexpr int kRowBytes = kChannels * kLaneBytes;
  static constexpr int kPieces = kRowBytes / 16;
  static constexpr int kBytes = Plan::kWholeWarps ? rows * kRowBytes : 0;
  static constexpr int kCopies = ceil_div(rows * kPieces, kLanes);

  // Copies rows, whose first begins at `from`, `stride` elements apart; zeros from row `count` on.
  static RNNC_MEMBER void copy(char* area, const Element* from, int64 stride, int count, int lane) {
    repeat<kCopies>([&](int i) {
      const int piece = i * kLanes + lane;
      const int row = piece / at_least_one(kPieces), place = piece % at_least_one(kPieces) * 16;
      if (rows * kPieces % kLanes && row >= rows) return;
      const bool own = row < count;
      const Element* const step = from + (own ? row : 0) * stride;
      cp_async_16_or_zero(area + piece * 16, reinterpret_cast<const char*>(step) + place,
                          own ? 16 : 0);
    });
  }
  static RNNC_MEMBER void read(Vec<Element, n>& values, const char* area, int row, int lane) {
    values.read(area + at(row, lane));
  }
  // Of a step of the lane's own.
  static RNNC_MEMBER int at(int row, int lane) {
    return (lane / kChannels * Plan::kChunk + row) * kRowBytes + lane % kChannels * kLaneBytes;
  }
};

}  // namespace rnnc::scan
