// ClusterStatistics: numbers of a head whose units are in the threads of a cluster.
//
// Lanes that share a batch row add their parts by shuffles, and one of them writes the warp's part
// to shared memory. After a barrier of the block some threads add the parts of its warps, and push
// the block's part to all blocks. Every thread adds those of all blocks. All of this is in a fixed
// order, and so every block finds the same numbers.
//
// What warps write has two buffers, which steps use in turns. A thread may read one until the
// barrier of the next step, after which the step after that writes it again.
#pragma once

#include "lib/mma/k_tile.cuh"
#include "lib/ptx/cluster.cuh"
#include "lib/stages/cluster/exchanges.cuh"
#include "lib/stages/parts.cuh"

namespace rnnc {

// A thread has one batch row or two neighbouring ones, of `units` units; lanes whose indices differ in
// the bits of `lanes` have other units of the same rows. `parts` of the `warps` warps of a block have
// units.
template <class Plan, int rows, int units, int lanes, int parts, int warps>
struct ClusterStatistics {
  struct __align__(2 * sizeof(real)) Words {
    real first, second;
  };
  // Of neighbouring rows, which one load reads.
  struct __align__(rows * sizeof(Words)) RowsWords {
    Words row[rows];
  };
  static constexpr int kOthers = rows == 2 ? lanes & (lanes - 1) : lanes;  // lanes of own row
  static constexpr bool kWhole = Plan::kCluster * Plan::kUnits == Plan::kHeadDim;  // no padding
  static constexpr int kPartBytes = kColumns * 2 * static_cast<int>(sizeof(real));
  static constexpr int kWarpPartsBytes = Cell::kStageStatistics * parts * kPartBytes;
  static constexpr int kBufferBytes = Cell::kStageStatistics * Plan::kCluster * kPartBytes;
  static constexpr int kBytes = 2 * (kWarpPartsBytes + kBufferBytes);
  // Bytes that the cluster pushes to a block for a stage.
  RNNC_CONSTEXPR int pushed_bytes(int stage) {
    return statistics_of(stage) * Plan::kCluster * kPartBytes;
  }

  // Threads push 32 rows at a time: eight rows of four blocks.
  static constexpr int kPieces = ceil_div(Plan::kCluster * kColumns, 32);
  static constexpr int kTurns = ceil_div(kPieces, warps);  // pieces of a warp, per statistic
  static constexpr int kSlots = maximum(warps / kPieces, 1);  // warps that have the same piece

  // Addresses in shared memory, of buffer 0. NOTE: pinned, or the compiler would read the thread's
  // index again in each step.
  u32 own;     // where this lane writes its warp's part of a row
  u32 pushed;  // where the parts of warps lie of the row that it pushes
  u32 read;    // where the parts of blocks lie of the thread's rows
  u32 peer[kTurns], peer_barrier[kTurns];  // where it pushes to
  bool pushes[kTurns], writes, second;     // second: it writes the second of the thread's rows
  int slot;

  // `begin` is the first byte of all of this, `part` the number of the warp's part, `row` the first of
  // the thread's rows in the tile.
  RNNC_MEMBER void prepare(u32 begin, u32 barriers, int rank, int warp, int lane, int part,
                           int row) {
    constexpr int word_bytes = static_cast<int>(sizeof(Words));
    second = pin(int{rows == 2 && (lane & (lanes ^ kOthers))});
    writes = pin(int{(lane & kOthers) == 0});
    own = pin(begin + part * kPartBytes + (row + second) * word_bytes);
    pushed = pin(begin + lane % kColumns * word_bytes);
    read = pin(begin + 2 * kWarpPartsBytes + row * word_bytes);
    slot = pin(warp / kPieces);
    repeat<kTurns>([&](int turn) {
      const int piece = warp % kPieces + turn * warps, distance = (32 * piece + lane) / kColumns;
      const int block = (rank + distance) % Plan::kCluster;
      pushes[turn] = pin(int{piece < kPieces && distance < Plan::kCluster});
      peer[turn] = mapa(begin, block) + 2 * kWarpPartsBytes + rank * kPartBytes +
                   lane % kColumns * word_bytes;
      peer_barrier[turn] = mapa(barriers, block);
    });
  }

  // Before the barrier of the block: writes the warp's part. value(i, j, k) is value k of unit i,
  // which exists(i), and of the thread's row j.
  template <int stage, typename Value, typename Exists>
  RNNC_MEMBER void write(int buffer, const Value& value, const Exists& exists) const {
    for_statistics_of<stage>([&](auto index, auto) {
      constexpr StageStatistic statistic = kStageStatistics[decltype(index)::value];
      constexpr StatisticKind kind = statistic.kind;
      Part of_row[rows];
      repeat<rows>([&](int j) {
        Part found[units * statistic.count];
        repeat<units>([&](int i) {
          repeat<statistic.count>([&](int k) {
            const Part one = part_of<kind>(value(i, j, kStatisticValues[statistic.first + k]));
            found[i * statistic.count + k] = kWhole || exists(i) ? one : no_part<kind>();
          });
        });
        of_row[j] = united<kind>(found);
      });
      Part all = of_row[0];
      if constexpr (rows == 2) all = part_of_own_row<kind, lanes, !kWhole>(of_row, second);
      all = part_of_lanes<kind, kOthers, !kWhole>(all);
      if (writes) {
        *words_at(own + buffer * kWarpPartsBytes + index * parts * kPartBytes) = {all.first,
                                                                                 all.second};
      }
    });
  }

  // After the barrier: pushes the block's parts. units_of(part) says how many units part `part` has.
  template <int stage, typename UnitsOf>
  RNNC_MEMBER void push(int buffer, const UnitsOf& units_of) const {
    for_statistics_of<stage>([&](auto index, auto order) {
      constexpr StageStatistic statistic = kStageStatistics[decltype(index)::value];
      if (slot != order % kSlots) return;
      Part found[parts];
      repeat<parts>([&](int part) {
        const Words words = *words_at(pushed + buffer * kWarpPartsBytes +
                                      (index * parts + part) * kPartBytes);
        found[part] = {words.first, words.second, real(units_of(part) * statistic.count)};
      });
      const Part all = united<statistic.kind>(found);
      repeat<kTurns>([&](int turn) {
        if (!pushes[turn]) return;
        st_async_v2(peer[turn] + buffer * kBufferBytes + index * Plan::kCluster * kPartBytes,
                    __float_as_uint(all.first), __float_as_uint(all.second),
                    peer_barrier[turn] + exchange_of(stage) * kBarrierPairBytes + buffer * 8);
      });
    });
  }

  // After the exchange: the numbers of each row.
  template <int stage, int n>
  RNNC_MEMBER void collect(int buffer, real (&numbers)[rows][n]) const {
    for_statistics_of<stage>([&](auto index, auto) {
      constexpr StageStatistic statistic = kStageStatistics[decltype(index)::value];
      RowsWords words[Plan::kCluster];
      repeat<Plan::kCluster>([&](int block) {
        words[block] = *reinterpret_cast<const RowsWords*>(words_at(
            read + buffer * kBufferBytes + (index * Plan::kCluster + block) * kPartBytes));
      });
      repeat<rows>([&](int j) {
        Part found[Plan::kCluster];
        repeat<Plan::kCluster>([&](int block) {
          const int exist = minimum(Plan::kHeadDim - block * Plan::kUnits, Plan::kUnits);
          found[block] = {words[block].row[j].first, words[block].row[j].second,
                          real(exist * statistic.count)};
        });
        set_numbers<statistic.kind>(numbers[j] + statistic.to, united<statistic.kind>(found));
      });
    });
  }

 private:
  // body(index, order) for the statistics of a stage, which are in this order.
  template <int stage, typename Body>
  static RNNC_MEMBER void for_statistics_of(const Body& body) {
    unroll<Cell::kStageStatistics>([&](auto index) {
      constexpr int own = decltype(index)::value;
      if constexpr (kStageStatistics[own].stage == stage) {
        constexpr int order = statistics_of(stage, own);
        body(index, Index<order>{});
      }
    });
  }
  static RNNC_MEMBER Words* words_at(u32 address) {
    return reinterpret_cast<Words*>(shared_pointer(address));
  }
};

}  // namespace rnnc
