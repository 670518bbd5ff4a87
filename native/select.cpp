#include "select.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "avx512.hpp"
#include "target_clones.hpp"

namespace matchset {
namespace {

constexpr std::size_t kLanes = 8;  // keys that are split at once; as many may be written beyond the end of `above`

std::uint64_t middle(std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  return std::max(std::min(a, b), std::min(std::max(a, b), c));
}
std::uint64_t guess_median(const std::uint64_t* keys, std::size_t n) {
  return middle(keys[0], keys[n / 2], keys[n - 1]);
}

// Moves keys up to `pivot` to the front, the others to `above`; returns their number. Every key is
// written to both and counted in one: branches on the comparison would be mispredicted half of the time.
std::size_t split_plain(std::uint64_t* keys, std::size_t n, std::uint64_t pivot, std::uint64_t* above) {
  std::size_t n_below = 0, n_above = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint64_t key = keys[i];
    const bool is_below = key <= pivot;
    keys[n_below] = key;
    above[n_above] = key;
    n_below += is_below;
    n_above += !is_below;
  }
  return n_below;
}

// Copies keys up to `bound` to `out`, in order; returns their number.
std::size_t collect_plain(const std::uint64_t* keys, std::size_t n, std::uint64_t bound, std::uint64_t* out) {
  std::size_t n_found = 0;
  for (std::size_t i = 0; i < n; ++i) {
    out[n_found] = keys[i];
    n_found += keys[i] <= bound;
  }
  return n_found;
}

// Sorts by counting the smaller keys: faster for a hundred keys than any sort that branches.
MATCHSET_CLONES void sort_by_rank(const std::uint64_t* keys, std::size_t n, std::uint64_t* out) {
  for (std::size_t i = 0; i < n; ++i) {
    std::uint64_t rank = 0;
    for (std::size_t j = 0; j < n; ++j) rank += keys[j] < keys[i] ? 1U : 0U;
    out[rank] = keys[i];
  }
}

void sort_plain(std::uint64_t* keys, std::size_t n, std::uint64_t* spare) {
  constexpr std::size_t kRanked = 160;
  if (n > kRanked) return std::sort(keys, keys + n);
  std::copy_n(keys, n, spare);
  sort_by_rank(spare, n, keys);
}

#ifdef MATCHSET_AVX512
// Which of the next lanes hold a key if n keys are left.
MATCHSET_AVX512 __mmask8 mask_of(std::size_t n) {
  return static_cast<__mmask8>(_bzhi_u32(0xFF, static_cast<unsigned>(std::min(kLanes, n))));
}

MATCHSET_AVX512 std::size_t split_avx512(std::uint64_t* keys, std::size_t n, std::uint64_t pivot,
                                         std::uint64_t* above) {
  const __m512i pivots = _mm512_set1_epi64(static_cast<long long>(pivot));
  std::size_t n_below = 0, n_above = 0;
  for (std::size_t i = 0; i < n; i += kLanes) {
    const __mmask8 is_key = mask_of(n - i);
    const __m512i some = _mm512_maskz_loadu_epi64(is_key, keys + i);
    const __mmask8 is_below = _mm512_mask_cmple_epu64_mask(is_key, some, pivots);
    const auto is_above = static_cast<__mmask8>(is_key & ~is_below);
    // Never writes beyond what was read.
    _mm512_mask_storeu_epi64(keys + n_below, is_key, _mm512_maskz_compress_epi64(is_below, some));
    _mm512_storeu_si512(above + n_above, _mm512_maskz_compress_epi64(is_above, some));
    n_below += static_cast<unsigned>(std::popcount(is_below));
    n_above += static_cast<unsigned>(std::popcount(is_above));
  }
  return n_below;
}

MATCHSET_AVX512 std::size_t collect_avx512(const std::uint64_t* keys, std::size_t n, std::uint64_t bound,
                                           std::uint64_t* out) {
  const __m512i bounds = _mm512_set1_epi64(static_cast<long long>(bound));
  std::size_t n_found = 0, i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const __m512i some = _mm512_loadu_si512(keys + i);
    const __mmask8 is_found = _mm512_cmple_epu64_mask(some, bounds);
    _mm512_storeu_si512(out + n_found, _mm512_maskz_compress_epi64(is_found, some));
    n_found += static_cast<unsigned>(std::popcount(is_found));
  }
  return n_found + collect_plain(keys + i, n - i, bound, out + n_found);
}

// Sorts up to four times kLanes by rank, in registers.
MATCHSET_AVX512 void sort_few(std::uint64_t* keys, std::size_t n) {
  __m512i some[4];
  for (std::size_t v = 0; v < 4; ++v) {
    const __mmask8 is_key = mask_of(n - std::min(n, v * kLanes));
    some[v] = _mm512_mask_loadu_epi64(_mm512_set1_epi64(-1), is_key, keys + v * kLanes);
  }
  std::uint64_t sorted[4 * kLanes];
  for (std::size_t i = 0; i < n; ++i) {
    const __m512i key = _mm512_set1_epi64(static_cast<long long>(keys[i]));
    int rank = 0;
    for (const __m512i& others : some) rank += std::popcount(_mm512_cmplt_epu64_mask(others, key));
    sorted[rank] = keys[i];
  }
  std::copy_n(sorted, n, keys);
}

void sort_avx512(std::uint64_t* keys, std::size_t n, std::uint64_t* spare, unsigned depth = 0) {
  constexpr unsigned kDeep = 40;
  if (n <= 4 * kLanes) return sort_few(keys, n);
  const std::size_t n_below = split_avx512(keys, n, guess_median(keys, n), spare);
  std::copy_n(spare, n - n_below, keys + n_below);
  if (n_below == n || depth == kDeep) return std::sort(keys, keys + n);
  sort_avx512(keys, n_below, spare, depth + 1);
  sort_avx512(keys + n_below, n - n_below, spare, depth + 1);
}

std::size_t split(std::uint64_t* keys, std::size_t n, std::uint64_t pivot, std::uint64_t* above) {
  return has_avx512 ? split_avx512(keys, n, pivot, above) : split_plain(keys, n, pivot, above);
}
std::size_t collect(const std::uint64_t* keys, std::size_t n, std::uint64_t bound, std::uint64_t* out) {
  return has_avx512 ? collect_avx512(keys, n, bound, out) : collect_plain(keys, n, bound, out);
}
void sort(std::uint64_t* keys, std::size_t n, std::uint64_t* spare) {
  has_avx512 ? sort_avx512(keys, n, spare) : sort_plain(keys, n, spare);
}
#else
constexpr auto split = split_plain;
constexpr auto collect = collect_plain;
constexpr auto sort = sort_plain;
#endif

// Moves little more than the k smallest to the front, and returns how many: those up to a bound that a sample of the
// keys suggests, one and a half standard deviations above where the k-th should be. All, where it was too low.
std::size_t select_roughly(std::uint64_t* keys, std::size_t n, std::size_t k, std::uint64_t* spare) {
  constexpr std::size_t kSample = 16;
  std::uint64_t sample[kSample];
  for (std::size_t i = 0; i < kSample; ++i) sample[i] = keys[i * n / kSample];
  sort(sample, kSample, spare);
  const auto share = static_cast<float>(k) / static_cast<float>(n), size = static_cast<float>(kSample);
  const float place = size * share + 1.5F * std::sqrt(size * share * (1 - share));
  if (place >= size - 1) return n;
  const std::size_t n_found = collect(keys, n, sample[static_cast<std::size_t>(place)], spare);
  if (n_found < k) return n;
  std::copy_n(spare, n_found, keys);
  return n_found;
}

// Puts the k smallest first, in any order.
void select(std::uint64_t* keys, std::size_t n, std::size_t k, std::uint64_t* spare) {
  constexpr std::size_t kMany = 128;  // fewer are split in the time that a sample takes
  if (n >= kMany && k < n && k > 0) n = select_roughly(keys, n, k, spare);
  while (n > 16 && k < n && k > 0) {
    const std::size_t n_below = split(keys, n, guess_median(keys, n), spare);
    if (n_below == n) break;  // equal keys, which do not occur
    if (n_below <= k) {
      std::copy_n(spare, n - n_below, keys + n_below);
      keys += n_below, n -= n_below, k -= n_below;
    } else {
      n = n_below;
    }
  }
  if (k < n) std::nth_element(keys, keys + k, keys + n);
}

void cut(std::vector<std::uint64_t>& keys, std::size_t k, std::vector<std::uint64_t>& spare) {
  if (spare.size() < keys.size() + kLanes) spare.resize(keys.size() + kLanes);
  select(keys.data(), keys.size(), k, spare.data());
  if (k < keys.size()) keys.resize(k);
}

}  // namespace

void keep_smallest(std::vector<std::uint64_t>& keys, std::size_t k, std::vector<std::uint64_t>& spare) {
  if (keys.empty()) return;  // data() may be null, and pointer arithmetic on it is undefined
  cut(keys, k, spare);
  sort(keys.data(), keys.size(), spare.data());
}

std::uint64_t cut_smallest(std::vector<std::uint64_t>& keys, std::size_t k, std::vector<std::uint64_t>& spare) {
  cut(keys, k, spare);
  return *std::max_element(keys.begin(), keys.end());
}

void keep_up_to(std::vector<std::uint64_t>& keys, std::uint64_t bound, std::vector<std::uint64_t>& spare) {
  if (spare.size() < keys.size() + kLanes) spare.resize(keys.size() + kLanes);
  spare.resize(collect(keys.data(), keys.size(), bound, spare.data()));
  std::swap(keys, spare);
}

}  // namespace matchset
