// Tile: some steps of 32 channels, which a block computes; and how its warps join their maps.
//
// A warp has a chunk of the tile's steps, and a lane one channel: a unit of a batch row. Tiles are
// numbered in the order in which their steps run, those of all channels before the next ones.
//
// Where channels are few, block b takes tiles b, b + gridDim.x, … So a tile waits only for tiles that
// were begun before it. Where they are many, a block takes all tiles of its channels, one after the
// other (Plan::kSequential). Then no map is needed: a warp hands what is carried to the next one.
// There the lanes of a warp may be in parts, which have fewer channels, and one part's steps follow
// those of the part before it.
#pragma once

#include "lib/kernels/scan/shared.cuh"
#include "lib/kernels/walk/channel.cuh"

namespace rnnc::scan {

using Channel = walk::Channel<1>;
// Some bits of values.
template <int n>
RNNC_INLINE u32 bits_of(const real (&values)[n]) {
  u32 bits = 0;
  repeat<n>([&](int i) { bits |= bits_of(values[i]); });
  return bits;
}
// Some bits of all that steps compute early, if they do.
template <int size, typename Early, int steps>
RNNC_INLINE u32 bits_of_steps(const Early (&early)[steps]) {
  u32 bits = 0;
  if (size) repeat<steps>([&](int j) { bits |= bits_of(early[j]); });
  return bits;
}

// A state as it is stored. NOTE: a conversion of two numbers takes a fraction of the time of one's.
template <typename T>
RNNC_INLINE Vec<T, 1> packed_one(real x) {
  Vec<T, 1> vec;
  if constexpr (sizeof(T) == 2) {
    vec.words[0] = static_cast<u16>(pack(T{}, x, real(0)));
  } else {
    vec.set({x});
  }
  return vec;
}

struct Tile {
  Channel channel;
  int64 group, groups;  // of channels
  int number, tiles;    // in time, of each group
  int lane, warp;
  int first;            // of the lane's steps, counted as they run
  int count;            // steps that the channel runs
  int longest;          // of all lanes
  int turn;             // which half of the memory for copies has its steps
  bool whole;           // whether all lanes run all of the warp's steps
  bool exists;          // the channel
  u32 zero;

  template <typename Arguments>
  RNNC_MEMBER Tile(const Arguments& a, int64 index, int64 all, int in_time, int half)
      : channel(a, first_channel(a, index % all)) {
    group = index % all;
    groups = all;
    turn = half;
    number = static_cast<int>(index / all);
    tiles = in_time;
    zero = static_cast<u32>(a.steps >> 62);
    lane = static_cast<int>(threadIdx.x) % kLanes;
    warp = static_cast<int>(threadIdx.x) / kLanes;
    first = warp_first() + part() * Plan::kChunk;
    exists = group * kChannels + lane % kChannels < a.batch * channel.plane;
    longest = count = channel.count;
    if (kMasked && !Plan::kWholeWarps) longest = __reduce_max_sync(~0u, count);
    find_whole();
  }
  RNNC_MEMBER void find_whole() {
    whole = first + Plan::kChunk <= count;
    if ((kMasked && !Plan::kWholeWarps) || kParts > 1) whole = !any_lane(!whole);
  }
  // Goes on to the next tile of the same channels.
  RNNC_MEMBER void advance() {
    ++number;
    first += kTileSteps;
    turn = 1 - turn;
    find_whole();
  }
  // A lane behind the last channel computes that one too, and stores the same results.
  template <typename Arguments>
  static RNNC_MEMBER int64 first_channel(const Arguments& a, int64 group) {
    const int64 last = a.batch * a.heads * a.dim - 1;
    const int64 own = group * kChannels + threadIdx.x % kChannels;
    return own < last ? own : last;
  }
  RNNC_MEMBER int part() const { return lane / kChannels; }
  RNNC_MEMBER int warp_first() const { return number * kTileSteps + warp * kWarpSteps; }
  // Whether any channel runs a step of the tile. The first tile has what comes before all steps.
  RNNC_MEMBER bool runs() const { return number == 0 || number * kTileSteps < longest; }
  // Whether the warp's steps are the first of all.
  RNNC_MEMBER bool is_first() const { return number == 0 && warp == 0; }
  // Whether any channel runs a step of the next tile.
  RNNC_MEMBER bool goes_on() const { return (number + 1) * kTileSteps < longest; }
  RNNC_MEMBER bool owns(int j) const { return first + j < count; }
  // body(all) with Index<1> if all lanes run all steps, which takes fewer instructions.
  template <typename Body>
  RNNC_MEMBER void in_parts(const Body& body) const {
    if (whole) {
      body(Index<1>{});
    } else {
      body(Index<0>{});
    }
  }
  // Whether step j of the warp is the last of all.
  RNNC_MEMBER bool is_last(int j) const { return j == count - 1 - first; }
  RNNC_MEMBER bool has_last() const { return first < count && count <= first + Plan::kChunk; }

  // Gives what is carried into the lane's steps: into those of the warp's first part what the warp
  // before it has left, or for the first steps of all `values`. follow(values) replaces what is
  // carried into steps by what they leave; that of the last part is left to the next warp. `ready`
  // has bits of values that do not wait for what is carried.
  template <typename Follow>
  RNNC_MEMBER void carry_on(Carried& values, u32 ready, const Follow& follow) const {
    if (!is_first()) {
      // NOTE: a barrier whose number depends on the values, by nothing that the compiler knows. It
      // moves their computation behind the barrier otherwise, where other warps wait for it.
      wait_for_turn(warp + static_cast<int>(ready & zero));
      repeat<kCarried>(
          [&](int k) { values[k] = in_shared().carried[warp][k][lane % kChannels]; });
    }
    Carried left;
    assign(left, values);
    follow(left);
    repeat<kParts - 1>([&](int i) {
      Carried next;
      repeat<kCarried>([&](int k) {
        next[k] = __shfl_sync(~0u, left[k], (lane - kChannels) & 31);
        values[k] = part() == i + 1 ? next[k] : values[k];
      });
      follow(next);
      repeat<kCarried>([&](int k) { left[k] = part() == i + 1 ? next[k] : left[k]; });
    });
    const bool is_last_warp = warp == Plan::kWarps - 1;
    if (is_last_warp && !goes_on()) return;
    const int to = is_last_warp ? 0 : warp + 1;
    if (part() == kParts - 1) {
      repeat<kCarried>([&](int k) { in_shared().carried[to][k][lane % kChannels] = left[k]; });
    }
    give_turn(to);
  }

  // Tells other warps of a map. The barrier comes after it.
  template <typename Any>
  RNNC_MEMBER void share(const Any& map, int warp) const {
    reinterpret_cast<SharedMaps<Any>*>(in_shared().maps)->put(warp, lane, map);
  }
  static RNNC_MEMBER Word* ahead() {
    return reinterpret_cast<Word*>(in_shared().maps + kMapBytes);
  }
  template <typename Any>
  RNNC_MEMBER Any shared_map(int of) const {
    Any map;
    reinterpret_cast<const SharedMaps<Any>*>(in_shared().maps)->get(map, of, lane);
    return map;
  }
  // Gives what is carried into the warp's steps, of the values of a kind of map; the warp's is `own`,
  // and `begins` has what is carried into the first tile. The last warp computes it for all of them,
  // while the first one joins their maps.
  template <typename Any>
  RNNC_MEMBER void carry(Carried& carried, const Records& records, const Any& own,
                         const Carried& begins) const {
    share(own, warp);
    meet();
    const bool publishes = number + 1 < tiles;
    // A warp joins the maps of its group while others do, and the first one joins these.
    Any all;
    if (publishes && warp % kGroup == 0) {
      all = shared_map<Any>(warp);
      const int end = minimum(warp + kGroup, Plan::kWarps);
#pragma unroll 1
      for (int i = warp + 1; i < end; ++i) all.append(shared_map<Any>(i));
      if (warp > 0) share(all, kTileMap + warp / kGroup);
      if (kGroups > 1) meet_groups();
    }
    if (number > 0 && warp % kGroup > 0 && warp < Plan::kWarps - 1) {
      const int own = warp - 1 - warp / kGroup;
#pragma unroll 1
      for (int i = own; i < kMapsAhead<Any>; i += kHelpers) {
        // The first tile has no map.
        if (number - 1 - i > 0) records.put_ahead<Any>(ahead(), i, number, lane);
      }
      give_ahead();
    }
    if (warp == 0 && publishes) {
#pragma unroll 1
      for (int i = 1; i < kGroups; ++i) all.append(shared_map<Any>(kTileMap + i));
      all.round();  // so that all who apply it get the same bits
      if (number > 0) records.publish_map(number, all);
      share(all, kTileMap);
      meet_ends();
    }
    if (warp == Plan::kWarps - 1) {
      real values[at_least_one(Any::kCount)];
      repeat<Any::kCount>([&](int k) { values[k] = begins[Any::kFirst + k]; });
      if (number > 0) records.carried_into<Any>(number, lane, values, ahead(), wait_for_ahead);
      if (publishes) {
        meet_ends();
        real out[at_least_one(Any::kCount)];
        assign(out, values);
        shared_map<Any>(kTileMap).apply(out);
        records.publish_values<Any>(number, out);
      }
#pragma unroll 4
      for (int i = 0; i < Plan::kWarps; ++i) {
        repeat<Any::kCount>(
            [&](int k) { in_shared().carried[i][Any::kFirst + k][lane] = values[k]; });
        shared_map<Any>(i).apply(values);
      }
    }
    meet();
    repeat<Any::kCount>([&](int k) {
      carried[Any::kFirst + k] = in_shared().carried[warp][Any::kFirst + k][lane];
    });
  }
};

}  // namespace rnnc::scan
