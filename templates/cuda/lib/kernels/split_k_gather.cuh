// The gather of a SplitK product: a warp's words of the states, waited for in the exchange buffer.
#pragma once

#include "lib/exchange/ll_exchange.cuh"
#include "lib/ptx/watchdog.cuh"

namespace rnnc {

// Loads words[i][tile] from address(i, tile) until none is the sentinel; zero where written(i) says
// that nobody writes. With polls_one_word, one lane polls the last word before all lanes load.
template <bool polls_one_word, int count, int tiles, typename Address, typename Written>
RNNC_INLINE void gather(uint4 (&words)[count][tiles], const Address& address,
                        const Written& written, const Wait& wait) {
  Watchdog watchdog;
  if constexpr (polls_one_word) {
    if ((threadIdx.x & 31) == 0 && written(count - 1)) {
      const auto* word = reinterpret_cast<const u32*>(address(Index<count - 1>{}, tiles - 1));
      while (ld_relaxed_gpu(word) == kSentinel) watchdog.poll(wait);
    }
    __syncwarp();
  }
  const auto each = [&](const auto& body) {
    unroll<count>([&](auto i) { repeat<tiles>([&](int tile) { body(i, tile, words[i][tile]); }); });
  };
  each([&](auto, int, uint4& word) { word = make_uint4(0, 0, 0, 0); });
  each([&](auto i, int tile, uint4& word) {
    if (written(i)) word = ld_relaxed_gpu_v4(address(i, tile));
  });
  const auto complete = [&]() {
    bool missing = false;
    each([&](auto, int, const uint4& word) { missing |= has_sentinel(word); });
    if (!__any_sync(~0u, missing)) return true;
    each([&](auto i, int tile, uint4& word) {
      if (has_sentinel(word)) word = ld_relaxed_gpu_v4(address(i, tile));
    });
    return false;
  };
  // The clock is outside of the loop that nearly always ends the wait.
  bool done = false;
  while (!done) {
#pragma unroll 1
    for (int attempt = 0; attempt < 1024 && !done; ++attempt) done = complete();
    if (!done) watchdog.check(wait);
  }
}

}  // namespace rnnc
