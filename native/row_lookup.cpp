#include "row_lookup.hpp"

#include <algorithm>
#include <type_traits>

#include "avx512.hpp"
#include "prefetch.hpp"
#include "simd.hpp"
#include "target_clones.hpp"

namespace matchset {
namespace {

// Sixteen keys of a chunk at once.
template <typename Key>
struct Keys;
template <>
struct Keys<std::uint16_t> {
  using Lanes = std::int16_t __attribute__((vector_size(32)));
  static constexpr Lanes kLane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
};
template <>
struct Keys<std::uint32_t> {
  using Lanes = std::int32_t __attribute__((vector_size(64)));
  static constexpr Lanes kLane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
};

// Two sums at once: of `low`, below 2^16 in total, in the lower half and of `high` in the upper half.
MATCHSET_INLINE std::uint32_t sum(const Keys<std::uint16_t>::Lanes& low, const Keys<std::uint16_t>::Lanes& high) {
  using Words = std::uint32_t __attribute__((vector_size(32)));
  using Half = std::uint32_t __attribute__((vector_size(16)));
  const auto l = reinterpret_cast<Words>(low), h = reinterpret_cast<Words>(high);
  const Words w = (l & 0xFFFF) + (l >> 16) + (h << 16) + (h & 0xFFFF0000);
  Half s = __builtin_shufflevector(w, w, 0, 1, 2, 3) + __builtin_shufflevector(w, w, 4, 5, 6, 7);
  s += __builtin_shufflevector(s, s, 2, 3, 0, 1);
  s += __builtin_shufflevector(s, s, 1, 0, 3, 2);
  return s[0];
}
MATCHSET_INLINE std::uint32_t sum(const Keys<std::uint32_t>::Lanes& low, const Keys<std::uint32_t>::Lanes& high) {
  std::uint32_t total = 0;
  for (int i = 0; i < 16; ++i) total += static_cast<std::uint32_t>(low[i] + (high[i] << 16));
  return total;
}

struct RowPosition {
  std::size_t at;      // from the start of the chunk
  std::uint32_t code;  // plus one, 0 if the feature has no row
};

// Finds a tag in a chunk. Keys ascend, so the rows before it are those with a smaller tag.
template <typename Key>
struct PlainSearch {
  using Lanes = typename Keys<Key>::Lanes;
  using Lane = std::make_signed_t<Key>;

  explicit PlainSearch(const RowForms& forms)
      : weight_bytes(static_cast<Lane>(forms.shape.weight_bytes)),
        bitmap_from(static_cast<Lane>(forms.shape.bitmap_from())), step(static_cast<Lane>(forms.shape.step())),
        bitmap_bytes(static_cast<Lane>(forms.shape.bitmap_bytes())),
        dense_bytes(static_cast<Lane>(forms.shape.size(kDenseCode))) {}

  MATCHSET_INLINE RowPosition find(const std::uint8_t* chunk, std::uint32_t tag) const {
    const std::uint32_t n_rows = chunk[0];
    RowPosition row{1 + n_rows * sizeof(Key), 0};
    std::uint32_t r = 0;
    do {  // nearly always once
      Lanes keys;
      std::memcpy(&keys, chunk + 1 + r * sizeof(Key), sizeof keys);
      const Lanes code = keys & static_cast<Lane>(kDenseCode);
      const Lanes tags = (keys >> kCodeBits) & static_cast<Lane>((1U << (8 * sizeof(Key) - kCodeBits)) - 1);
      const Lanes room = code < 16 ? code + 1 : (code - 15) * step + 16;
      const Lanes head = room >= bitmap_from ? (code & 0) + bitmap_bytes : room;
      Lanes size = room * weight_bytes + head;
      size = code == static_cast<Lane>(kDenseCode) ? (code & 0) + dense_bytes : size;
      const Lanes is_row = Keys<Key>::kLane < static_cast<Lane>(n_rows - r);
      const Lanes wanted = (code & 0) + static_cast<Lane>(tag);
      const std::uint32_t total = sum(size & (tags < wanted) & is_row, (code + 1) & (tags == wanted) & is_row);
      row.at += total & 0xFFFF;  // at most 16 rows of 1,088 bytes
      row.code += total >> 16;
      r += 16;
    } while (r < n_rows);
    return row;
  }

  Lane weight_bytes, bitmap_from, step, bitmap_bytes, dense_bytes;
};

#ifdef MATCHSET_AVX512
// The same for short keys, whose codes one AVX-512 instruction translates to sizes.
struct Avx512Search {
  MATCHSET_AVX512 explicit Avx512Search(const RowForms& forms) : sizes(_mm512_load_si512(forms.sizes)) {}

  MATCHSET_AVX512 RowPosition find(const std::uint8_t* chunk, std::uint32_t tag) const {
    const std::uint32_t n_rows = chunk[0];
    const __m256i smallest = _mm256_set1_epi16(static_cast<short>(tag << kCodeBits));
    RowPosition row{1 + n_rows * sizeof(std::uint16_t), 0};
    std::uint32_t r = 0;
    do {
      const std::uint8_t* at = chunk + 1 + r * sizeof(std::uint16_t);
      const __m256i keys = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
      const auto is_row = static_cast<__mmask16>(_bzhi_u32(0xFFFF, n_rows - r));
      const __mmask16 is_before = _mm256_mask_cmplt_epu16_mask(is_row, keys, smallest);
      const __mmask16 is_wanted =
          _mm256_mask_cmplt_epu16_mask(is_row, _mm256_sub_epi16(keys, smallest), _mm256_set1_epi16(32));
      const __m512i before = _mm512_maskz_permutexvar_epi16(is_before, _mm512_castsi256_si512(keys), sizes);
      row.at += sum(_mm512_castsi512_si256(before));
      const std::uint32_t code = at[sizeof(std::uint16_t) * _tzcnt_u32(is_wanted)] & kDenseCode;
      row.code += is_wanted != 0 ? code + 1 : 0;
      r += 16;
    } while (r < n_rows);
    return row;
  }

  MATCHSET_AVX512 static std::uint32_t sum(__m256i sizes) {
    const __m256i pairs = _mm256_madd_epi16(sizes, _mm256_set1_epi16(1));
    __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1));
    sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4E));
    sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xB1));
    return static_cast<std::uint32_t>(_mm_cvtsi128_si32(sum));
  }

  __m512i sizes;
};
#endif

// Sorts the rows that the features have in a block by form. No branch depends on what is found: a branch
// misprediction costs as much as all the work on a feature.
template <typename Search>
MATCHSET_INLINE void find_rows(const BlockView& block, const RowForms& forms, const FeatureChunks& features,
                               FoundRows& out) {
  const Search search(forms);
  const auto tag_mask = static_cast<std::uint32_t>((std::uint64_t{1} << block.tag_bits) - 1);
  FoundRow* ends[3] = {out.rows[0].data(), out.rows[1].data(), out.rows[2].data()};
  for (std::size_t f = 0; f < features.features.size(); ++f) {
    const auto [hash, value] = features.features[f];
    const std::uint32_t chunk = features.chunks[f];
    const RowPosition row = search.find(block.begin + chunk, hash & tag_mask);
    // Code 0 means no row; two damaged rows with one tag may give a code that does not exist.
    const RowForm& form = forms.of[std::min<std::uint32_t>(row.code, kDenseCode + 2)];
    const std::size_t at = chunk + row.at;
    *ends[form.list] = {static_cast<std::uint32_t>(at), form.room, value};
    ends[form.list] += static_cast<std::size_t>(chunk != 0) & static_cast<std::size_t>(at + form.size <= block.size);
  }
  for (std::size_t list = 0; list < 3; ++list)
    out.n[list] = static_cast<std::size_t>(ends[list] - out.rows[list].data());
}

MATCHSET_CLONES void find_short(const BlockView& block, const RowForms& forms, const FeatureChunks& features,
                                FoundRows& out) {
  find_rows<PlainSearch<std::uint16_t>>(block, forms, features, out);
}
MATCHSET_CLONES void find_long(const BlockView& block, const RowForms& forms, const FeatureChunks& features,
                               FoundRows& out) {
  find_rows<PlainSearch<std::uint32_t>>(block, forms, features, out);
}
#ifdef MATCHSET_AVX512
MATCHSET_AVX512 void find_avx512(const BlockView& block, const RowForms& forms, const FeatureChunks& features,
                                 FoundRows& out) {
  find_rows<Avx512Search>(block, forms, features, out);
}
#endif

void find_short_keys(const BlockView& block, const RowForms& forms, const FeatureChunks& features, FoundRows& out) {
#ifdef MATCHSET_AVX512
  if (has_avx512) return find_avx512(block, forms, features, out);
#endif
  find_short(block, forms, features, out);
}

// Prefetches the cache lines of rows; the first line of a chunk was loaded with its keys.
void prefetch(const BlockView& block, const RowShape& shape, const FoundRows& rows) {
  const auto touch = [&](const FoundRow& row, std::uint32_t size) {
    const std::uint8_t* at = block.begin + row.at;
    prefetch_far(at);
    for (std::uint32_t line = 64; line < size; line += 64) prefetch_far(at + line);
    prefetch_far(at + size - 1);
  };
  for (const FoundRow& row : rows.found(0)) touch(row, shape.n_children * shape.weight_bytes);
  for (const FoundRow& row : rows.found(1)) touch(row, shape.bitmap_bytes() + row.room * shape.weight_bytes);
  for (const FoundRow& row : rows.found(2)) touch(row, row.room * (1 + shape.weight_bytes));
}

}  // namespace

void RowForms::prepare(const RowShape& wanted) {
  if (shape.n_children == wanted.n_children && shape.weight_bytes == wanted.weight_bytes) return;
  shape = wanted;
  of[0] = of[kDenseCode + 2] = {~0U, 1, 2};
  for (std::uint32_t code = 0; code <= kDenseCode; ++code) {
    const std::uint32_t room = shape.room(code);
    const unsigned list = code == kDenseCode ? 0 : room >= shape.bitmap_from() ? 1 : 2;
    of[code + 1] = {shape.size(code), static_cast<std::uint16_t>(room), static_cast<std::uint16_t>(list)};
    sizes[code] = static_cast<std::uint16_t>(shape.size(code));
  }
}

void RowFinder::find(const BlockView& block, Precision precision, const FeatureChunks& features, FoundRows& out) {
  RowForms& forms = forms_[block.n_children % std::size(forms_)];
  forms.prepare({block.n_children, static_cast<std::uint32_t>(bytes_of(precision))});
  if (block.key_bytes() == 4)
    find_long(block, forms, features, out);
  else
    find_short_keys(block, forms, features, out);
  prefetch(block, forms.shape, out);
}

}  // namespace matchset
