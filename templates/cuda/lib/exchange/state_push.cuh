// StatePush: sends the h of a warp's units to all blocks of a cluster.
#pragma once

#include "lib/exchange/cluster_layout_forward.cuh"
#include "lib/ptx/cluster.cuh"

namespace rnnc::cluster_forward {

// h of all sources, as the words to push.
using Words = u32[at_least_one(Cell::kSources)][4];

// h of a warp's units in pieces of 16 bytes, each of one row of the exchange buffer, and their way
// to the peers. The lanes that hold the same piece share the peers.
struct StatePush {
  static constexpr int kLanesPerPiece = (kPack == 2 ? 4 : 2) * (kItems == 1 ? 2 : 1);
  static constexpr int kPeers = ceil_div(Plan::kCluster, kLanesPerPiece);

  // Addresses at the peers: of the next pieces, and of the mbarriers that count them. NOTE:
  // computed ahead, so that a push waits only for h.
  u32 to[kPeers], barrier[kPeers];
  bool valid[kPeers];
  int buffer_distance = kBufferBytes, barrier_distance = 8;  // to the other buffer

  // The first pieces go to buffer 0.
  RNNC_MEMBER void prepare(u32 shared, u32 rank, int first_unit, int split, int lane) {
    const int quad = lane & 3, line = lane >> 2;
    int row, first = first_unit, peer_lane;
    if constexpr (kPack == 2) {
      row = kItems == 2 ? line : (line & ~1) | split;
      peer_lane = kItems == 2 ? quad : quad + 4 * (line & 1);
    } else {
      row = 2 * quad + (kItems == 2 ? line & 1 : split);
      first += (kItems == 2 ? line >> 1 & 1 : line & 1) * 4;
      peer_lane = kItems == 2 ? line >> 2 : line >> 1;
    }
    repeat<kPeers>([&](int i) {
      const int distance = peer_lane + i * kLanesPerPiece;
      valid[i] = distance < Plan::kCluster;
      const u32 peer = mapa(shared, (rank + distance) % Plan::kCluster);
      to[i] = peer + StateExchange::offset(row, first);
      barrier[i] = peer + kBarriersOffset;
    });
  }

  // The piece of this lane from the values of all lanes: value[i] is column 2q + i, or 2q + split,
  // of unit lane / 4.
  template <typename T>
  static RNNC_MEMBER void collect(T, u32 (&words)[4], const real (&value)[kItems], int lane) {
    const int quad = lane & 3, line = lane >> 2;
    if constexpr (sizeof(T) == 2) {
      const u32 columns = pack(T{}, value[0], value[kItems - 1]);
      const u32 units = movmatrix_trans(columns);  // 2q and 2q + 1, of column lane / 4
      repeat<4>([&](int i) { words[i] = __shfl_sync(~0u, units, i, 4); });
    } else if constexpr (kItems == 2) {
      // A lane that takes an odd column starts with the second unit, so that each shuffle reads one
      // column of a lane.
      const int odd = line & 1, first = line >> 1 & 1;
      u32 found[4];
      repeat<4>([&](int i) {
        const u32 word = __float_as_uint((line ^ i) & 1 ? value[1] : value[0]);
        found[i] = __shfl_sync(~0u, word, (first * 4 + (i ^ odd)) * 4 + quad);
      });
      repeat<4>([&](int i) { words[i] = odd ? found[i ^ 1] : found[i]; });
    } else {
      repeat<4>([&](int i) {
        words[i] = __shfl_sync(~0u, __float_as_uint(value[0]), ((line & 1) * 4 + i) * 4 + quad);
      });
    }
  }

  RNNC_MEMBER void send(const u32 (&words)[4], int source) const {
    repeat<kPeers>([&](int i) {
      if (valid[i]) st_async_v4(to[i] + source * StateExchange::kBytes, words, barrier[i]);
    });
  }
  // Sends the words of all sources to all blocks; the next ones go to the other buffer.
  RNNC_MEMBER void publish(const Words& words) {
    repeat<Cell::kSources>([&](int source) { send(words[source], source); });
    swap_buffers();
  }
  RNNC_MEMBER void swap_buffers() {
    repeat<kPeers>([&](int i) {
      to[i] += buffer_distance;
      barrier[i] += barrier_distance;
    });
    buffer_distance = -buffer_distance;
    barrier_distance = -barrier_distance;
  }
};

}  // namespace rnnc::cluster_forward
