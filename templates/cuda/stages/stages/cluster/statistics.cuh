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

// A thread has `rows` batch rows of `units` units; lanes whose indices differ in the bits of `lanes`
// have other units of the same rows. `parts` of the `warps` warps of a block have units.
template <class Plan, int rows, int units, int lanes, int parts, int warps>
struct ClusterStatistics {
  static constexpr bool kWhole = Plan::kCluster * Plan::kUnits == Plan::kHeadDim;  // no padding
  static constexpr int kPartBytes = kColumns * 2 * static_cast<int>(sizeof(real));
  static constexpr int kWarpPartsBytes = Cell::kStageStatistics * parts * kPartBytes;
  static constexpr int kBufferBytes = Cell::kStageStatistics * Plan::kCluster * kPartBytes;
  static constexpr int kBytes = 2 * (kWarpPartsBytes + kBufferBytes);
  // Bytes that the cluster pushes to a block for a stage.
  RNNC_CONSTEXPR int pushed_bytes(int stage) {
    return statistics_of(stage) * Plan::kCluster * kPartBytes;
  }

  u32 begin;    // the address of all of this, in shared memory
  u32 barriers; // that of the first mbarrier
  int rank, warp, lane;

  // Before the barrier of the block: writes part `part` of the block, if the lane is one that does.
  // value(i, j, k) is value k of unit i, which exists(i), and row j, which is row(j) of the tile.
  template <int stage, typename Value, typename Exists, typename Row>
  RNNC_MEMBER void write(int buffer, int part, bool writes, const Value& value,
                         const Exists& exists, const Row& row) const {
    for_statistics_of<stage>([&](auto index, auto) {
      constexpr StageStatistic statistic = kStageStatistics[decltype(index)::value];
      constexpr StatisticKind kind = statistic.kind;
      repeat<rows>([&](int j) {
        Part found[units * statistic.count];
        repeat<units>([&](int i) {
          repeat<statistic.count>([&](int k) {
            const Part one = part_of<kind>(value(i, j, kStatisticValues[statistic.first + k]));
            found[i * statistic.count + k] = kWhole || exists(i) ? one : no_part<kind>();
          });
        });
        const Part all = part_of_lanes<kind, lanes, !kWhole>(united<kind>(found));
        if (writes) {
          *words_at(warp_parts(buffer) + (index * parts + part) * kPartBytes, row(j)) = {
              all.first, all.second};
        }
      });
    });
  }

  // After the barrier: pushes the block's parts. units_of(part) says how many units part `part` has.
  template <int stage, typename UnitsOf>
  RNNC_MEMBER void push(int buffer, const UnitsOf& units_of) const {
    constexpr int pieces = ceil_div(Plan::kCluster * kColumns, 32);
    for_statistics_of<stage>([&](auto index, auto order) {
      constexpr StageStatistic statistic = kStageStatistics[decltype(index)::value];
      repeat<pieces>([&](int i) {
        if (warp != (order * pieces + i) % warps) return;
        const int distance = (32 * i + lane) / kColumns, row = lane % kColumns;
        const u32 peer = mapa(begin, (rank + distance) % Plan::kCluster);
        Part found[parts];
        repeat<parts>([&](int part) {
          const Words words =
              *words_at(warp_parts(buffer) + (index * parts + part) * kPartBytes, row);
          found[part] = {words.first, words.second, real(units_of(part) * statistic.count)};
        });
        const Part all = united<statistic.kind>(found);
        const int to = block_parts(buffer) + (index * Plan::kCluster + rank) * kPartBytes +
                       row * static_cast<int>(sizeof(Words));
        if (Plan::kCluster * kColumns % 32 == 0 || distance < Plan::kCluster) {
          st_async_v2(peer + to, __float_as_uint(all.first), __float_as_uint(all.second),
                      peer - begin + barriers + exchange_of(stage) * kBarrierPairBytes +
                          buffer * 8);
        }
      });
    });
  }

  // After the exchange: the numbers of each row.
  template <int stage, int n, typename Row>
  RNNC_MEMBER void collect(int buffer, real (&numbers)[rows][n], const Row& row) const {
    for_statistics_of<stage>([&](auto index, auto) {
      constexpr StageStatistic statistic = kStageStatistics[decltype(index)::value];
      repeat<rows>([&](int j) {
        Part found[Plan::kCluster];
        repeat<Plan::kCluster>([&](int block) {
          const Words words = *words_at(
              block_parts(buffer) + (index * Plan::kCluster + block) * kPartBytes, row(j));
          const int exist = minimum(Plan::kHeadDim - block * Plan::kUnits, Plan::kUnits);
          found[block] = {words.first, words.second, real(exist * statistic.count)};
        });
        set_numbers<statistic.kind>(numbers[j] + statistic.to, united<statistic.kind>(found));
      });
    });
  }

 private:
  struct __align__(2 * sizeof(real)) Words {
    real first, second;
  };

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
  // Offsets.
  static RNNC_MEMBER int warp_parts(int buffer) { return buffer * kWarpPartsBytes; }
  static RNNC_MEMBER int block_parts(int buffer) {
    return 2 * kWarpPartsBytes + buffer * kBufferBytes;
  }
  RNNC_MEMBER Words* words_at(int offset, int row) const {
    return reinterpret_cast<Words*>(shared_pointer(begin + offset)) + row;
  }
};

}  // namespace rnnc
