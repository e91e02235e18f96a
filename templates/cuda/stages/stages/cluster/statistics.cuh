// ClusterStatistics: numbers of a head whose units are in the threads of a cluster.
//
// Lanes that share a batch row add their parts by shuffles, and one of them writes the warp's part
// to shared memory. After a barrier of the block some threads add the parts of its warps, and push
// the block's part to all blocks. Lanes that share a row divide the blocks' parts among them, or
// every thread adds them all. All of this is in a fixed order, and so every block finds the same
// numbers.
//
// The parts of all numbers that a stage needs of a row are one record, which is written, pushed and
// read in vectors.
//
// What warps write has two buffers, which steps use in turns. A thread may read one until the
// barrier of the next step, after which the step after that writes it again.
#pragma once

#include "lib/mma/k_tile.cuh"
#include "lib/ptx/cluster.cuh"
#include "lib/ptx/vec.cuh"
#include "lib/stages/cluster/exchanges.cuh"
#include "lib/stages/cluster/shares.cuh"

namespace rnnc {

// The words of a statistic's part, and the place of the first of them in the record of its stage.
// Two words that belong together are in one vector.
RNNC_CONSTEXPR int part_words(StatisticKind kind) { return has_second(kind) ? 2 : 1; }
RNNC_CONSTEXPR int words_until(int stage, int last) {
  int words = 0;
  for (int i = 0; i <= last; ++i) {
    if (kStageStatistics[i].stage != stage) continue;
    const int own = part_words(kStageStatistics[i].kind);
    words = round_up(words, own) + own;
  }
  return words;
}
RNNC_CONSTEXPR int word_of(int statistic) {
  const StageStatistic& own = kStageStatistics[statistic];
  return words_until(own.stage, statistic) - part_words(own.kind);
}
RNNC_CONSTEXPR int record_words(int stage) {
  const int words = words_until(stage, Cell::kStageStatistics - 1);
  return words <= 2 ? round_up(words, 2) : round_up(words, 4);
}
RNNC_CONSTEXPR int vector_words(int stage) { return minimum(record_words(stage), 4); }
RNNC_CONSTEXPR int vectors_of(int stage) {
  return record_words(stage) / at_least_one(vector_words(stage));
}

RNNC_CONSTEXPR int bits_in(int bits) {
  int count = 0;
  for (; bits; bits &= bits - 1) ++count;
  return count;
}

// A thread has one batch row or two neighbouring ones, of `units` units; lanes whose indices differ
// in the bits of `lanes` have other units of the same rows. `parts` of the `warps` warps of a block
// have units.
template <class Plan, int rows, int units, int lanes, int parts, int warps>
struct ClusterStatistics {
  static constexpr int kOthers = rows == 2 ? lanes & (lanes - 1) : lanes;  // lanes of own row
  static constexpr bool kWhole = Plan::kCluster * Plan::kUnits == Plan::kHeadDim;  // no padding
  RNNC_CONSTEXPR int record_bytes(int stage) { return 4 * record_words(stage); }
  RNNC_CONSTEXPR int part_bytes(int stage) { return kColumns * record_bytes(stage); }
  RNNC_CONSTEXPR int part_bytes_before(int stage) { return sum_before(stage, part_bytes); }
  static constexpr int kPartBytes = part_bytes_before(Cell::kStages);
  static constexpr int kWarpPartsBytes = parts * kPartBytes;
  static constexpr int kBufferBytes = Plan::kCluster * kPartBytes;
  static constexpr int kBytes = 2 * (kWarpPartsBytes + kBufferBytes);
  // Bytes that the cluster pushes to a block for a stage.
  RNNC_CONSTEXPR int pushed_bytes(int stage) {
    return stage < Cell::kStages ? Plan::kCluster * part_bytes(stage) : 0;
  }

  // Threads push a vector of 32 rows at a time: eight rows of four blocks.
  static constexpr int kPieces = ceil_div(Plan::kCluster * kColumns, 32);
  static constexpr int kTurns = ceil_div(kPieces, warps);  // pieces of a warp, per vector
  static constexpr int kSlots = maximum(warps / kPieces, 1);  // warps that have the same piece
  // Whether each warp pushes each vector, and each thread with it.
  static constexpr bool kAllPush = warps <= kPieces;
  static constexpr bool kWholePieces = kTurns == 1 && Plan::kCluster * kColumns % 32 == 0;
  // Lanes of the same rows, which divide the parts of blocks among them where each gets as many.
  static constexpr int kSharers = 1 << bits_in(lanes), kWriters = 1 << bits_in(kOthers);
  static constexpr bool kDivides = kWhole && Plan::kCluster % kSharers == 0;

  // Addresses in shared memory, of buffer 0. NOTE: pinned, or the compiler would read the thread's
  // index again in each step.
  u32 begin, pushed_begin;
  int own_row;   // where this lane writes its warp's part: of the warp and of the row
  int read_row;  // the first of the thread's rows
  int push_row;  // the row that it pushes
  int own_block;  // where it pushes to: of the block and of the row
  u32 peer[kTurns], peer_barrier[kTurns];  // the block that it pushes to
  bool pushes[kTurns], second;             // second: it writes the second of the thread's rows
  int slot, writer, sharer;

  // `first` is the first byte of all of this, `part` the number of the warp's part, `row` the first
  // of the thread's rows in the tile.
  RNNC_MEMBER void prepare(u32 first, u32 barriers, int rank, int warp, int lane, int part,
                           int row) {
    second = pin(int{rows == 2 && (lane & (lanes ^ kOthers))});
    writer = pin(compressed(lane, kOthers));
    sharer = pin(compressed(lane, lanes));
    begin = pin(first);
    pushed_begin = pin(first + 2 * kWarpPartsBytes);
    own_row = pin(part * kColumns + row + second);
    read_row = pin(row);
    push_row = pin(lane % kColumns);
    slot = pin(warp / kPieces);
    repeat<kTurns>([&](int turn) {
      const int piece = warp % kPieces + turn * warps, distance = (32 * piece + lane) / kColumns;
      const int block = (rank + distance) % Plan::kCluster;
      pushes[turn] = pin(int{piece < kPieces && distance < Plan::kCluster});
      peer[turn] = mapa(first, block) + 2 * kWarpPartsBytes;
      peer_barrier[turn] = mapa(barriers, block);
    });
    own_block = pin(rank * kColumns + lane % kColumns);
  }

  // Before the barrier of the block: writes the warp's part. value(i, j, k) is value k of unit i,
  // which exists(i), and of the thread's row j.
  template <int stage, typename Value, typename Exists>
  RNNC_MEMBER void write(int buffer, const Value& value, const Exists& exists) const {
    if constexpr (record_words(stage) > 0) {
      real record[at_least_one(record_words(stage))] = {};
      for_statistics_of<stage>([&](auto index) {
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
        put<decltype(index)::value>(record, part_of_lanes<kind, kOthers, !kWhole>(all));
      });
      const u32 to = begin + buffer * kWarpPartsBytes + parts * part_bytes_before(stage) +
                     own_row * record_bytes(stage);
      for_vectors<stage>([&](auto vector, auto first) {
        if (writer != vector % kWriters) return;
        Vec<float, vector_words(stage)> words;
        repeat<vector_words(stage)>(
            [&](int i) { words.words[i] = __float_as_uint(record[first + i]); });
        write_aligned(words, shared_pointer(to + 4 * first));
      });
    }
  }

  // Waits for all warps of the block, and then pushes its parts. units_of(part) is the number of
  // units of a part. NOTE: addresses are computed ahead of the barrier: all
  // blocks wait for what is behind it.
  template <int stage, typename UnitsOf>
  RNNC_MEMBER void meet_and_push(int buffer, const UnitsOf& units_of) const {
    const u32 from = launder(begin + buffer * kWarpPartsBytes + parts * part_bytes_before(stage) +
                             push_row * record_bytes(stage));
    u32 to[kTurns], barrier[kTurns];
    repeat<kTurns>([&](int turn) {
      to[turn] = launder(peer[turn] + buffer * kBufferBytes +
                         Plan::kCluster * part_bytes_before(stage) +
                         own_block * record_bytes(stage));
      barrier[turn] = launder(peer_barrier[turn] + exchange_of(stage) * kBarrierPairBytes +
                              buffer * 8);
    });
    __syncthreads();
    push<stage>(from, to, barrier, units_of);
  }
  // Where a stage's part of the first block will be. NOTE: kept here, ahead of the wait for it.
  template <int stage>
  RNNC_MEMBER u32 pushed_at(int buffer) const {
    return launder(pushed_begin + buffer * kBufferBytes +
                   Plan::kCluster * part_bytes_before(stage) + read_row * record_bytes(stage));
  }
  // After the exchange: the numbers of each row, from where pushed_at said.
  template <int stage, int n>
  RNNC_MEMBER void collect(u32 pushed, real (&numbers)[rows][n]) const {
    for_vectors<stage>([&](auto vector, auto first) {
      constexpr int count = vector_words(stage), wide = rows * record_words(stage) <= 4 ? rows : 1;
      constexpr int own = Plan::kCluster / (kDivides ? kSharers : 1);
      const auto at = [&](u32 from, int block, int j) -> const char* {
        return shared_pointer(from + 4 * first + block * part_bytes(stage) +
                              j * record_bytes(stage));
      };
      const u32 from = kDivides ? pushed + sharer * part_bytes(stage) : pushed;
      Vec<float, wide * count> read[own][rows / wide], of_first[rows / wide];
      repeat<own>([&](int i) {
        const int block = kDivides ? i * kSharers : i;
        repeat<rows / wide>([&](int j) { read[i][j].read(at(from, block, j)); });
      });
      if (kDivides) repeat<rows / wide>([&](int j) { of_first[j].read(at(pushed, 0, j)); });
      for_statistics_in<stage, vector>([&](auto index) {
        constexpr StageStatistic statistic = kStageStatistics[decltype(index)::value];
        constexpr StatisticKind kind = statistic.kind;
        repeat<rows>([&](int j) {
          Part found[own];
          repeat<own>([&](int i) {
            const int exist = minimum(Plan::kHeadDim - i * Plan::kUnits, Plan::kUnits);
            const real number = real(exist * statistic.count);
            found[i] = taken<decltype(index)::value>(read[i][j / wide], first - j % wide * count,
                                                     number);
          });
          Part all;
          if constexpr (kDivides) {
            all = part_of_shares<kind, lanes>(
                found, taken<decltype(index)::value>(of_first[j / wide], first - j % wide * count,
                                                     found[0].count),
                real(Plan::kHeadDim * statistic.count));
          } else {
            all = united<kind>(found);
          }
          set_numbers<kind>(numbers[j] + statistic.to, all);
        });
      });
    });
  }

 private:
  template <int stage, typename UnitsOf>
  RNNC_MEMBER void push(u32 from, const u32 (&to)[kTurns], const u32 (&barrier)[kTurns],
                        const UnitsOf& units_of) const {
    for_vectors<stage>([&](auto vector, auto first) {
      constexpr int count = vector_words(stage);
      if (!kAllPush && slot != vector % kSlots) return;
      Vec<float, count> read[parts];
      repeat<parts>([&](int part) {
        read[part].read(shared_pointer(from + 4 * first + part * part_bytes(stage)));
      });
      real record[at_least_one(record_words(stage))] = {};
      for_statistics_in<stage, vector>([&](auto index) {
        constexpr StageStatistic statistic = kStageStatistics[decltype(index)::value];
        Part found[parts];
        repeat<parts>([&](int part) {
          const real units_of_part = real(units_of(part) * statistic.count);
          found[part] = taken<decltype(index)::value>(read[part], first, units_of_part);
        });
        put<decltype(index)::value>(record, united<statistic.kind>(found));
      });
      u32 words[4] = {};
      repeat<count>([&](int i) { words[i] = __float_as_uint(record[first + i]); });
      repeat<kTurns>([&](int turn) {
        if (!kWholePieces && !pushes[turn]) return;
        if constexpr (count == 4) {
          st_async_v4(to[turn] + 4 * first, words, barrier[turn]);
        } else {
          st_async_v2(to[turn] + 4 * first, words[0], words[1], barrier[turn]);
        }
      });
    });
  }

  // The bits of an index at the places of `bits`, next to each other.
  static RNNC_MEMBER int compressed(int index, int bits) {
    int found = 0, place = 0;
    repeat<5>([&](int bit) {
      if (bits >> bit & 1) found |= (index >> bit & 1) << place++;
    });
    return found;
  }
  // body(index) for the statistics of a stage, or of a vector of its record.
  template <int stage, typename Body>
  static RNNC_MEMBER void for_statistics_of(const Body& body) {
    unroll<Cell::kStageStatistics>([&](auto index) {
      if constexpr (kStageStatistics[decltype(index)::value].stage == stage) body(index);
    });
  }
  template <int stage, int vector, typename Body>
  static RNNC_MEMBER void for_statistics_in(const Body& body) {
    for_statistics_of<stage>([&](auto index) {
      if constexpr (word_of(decltype(index)::value) / vector_words(stage) == vector) body(index);
    });
  }
  // body(vector, first) for the vectors of a stage's record, and the first word of each.
  template <int stage, typename Body>
  static RNNC_MEMBER void for_vectors(const Body& body) {
    unroll<vectors_of(stage)>([&](auto vector) {
      body(vector, Index<decltype(vector)::value * vector_words(stage)>{});
    });
  }
  template <int statistic, int n>
  static RNNC_MEMBER void put(real (&record)[n], const Part& part) {
    record[word_of(statistic)] = part.first;
    if (has_second(kStageStatistics[statistic].kind)) record[word_of(statistic) + 1] = part.second;
  }
  // The part of a statistic from words of a record, of which the first is number `first`.
  template <int statistic, typename Words>
  static RNNC_MEMBER Part taken(const Words& words, int first, real count) {
    const int at = word_of(statistic) - first;
    const bool two = has_second(kStageStatistics[statistic].kind);
    return {words[at], two ? words[at + 1] : real(0), count};
  }
};

}  // namespace rnnc
