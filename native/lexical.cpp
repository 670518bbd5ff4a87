#include "lexical.hpp"

#include <algorithm>

#include "avx512.hpp"

namespace matchset {
namespace {

#ifdef MATCHSET_AVX512
// Sum of the impacts of those words that are wanted, sixteen words at a time; sets a bit for each that is there.
MATCHSET_AVX512 std::uint32_t add_avx512(std::span<const std::int32_t> words, const std::uint8_t* impacts,
                                         std::span<const std::uint32_t> wanted, std::uint64_t& bits) {
  constexpr std::size_t kLanes = 16;
  __m128i sums = _mm_setzero_si128();
  for (std::size_t i = 0; i < words.size(); i += kLanes) {
    const auto n = static_cast<unsigned>(std::min(kLanes, words.size() - i));
    const auto is_word = static_cast<__mmask16>(_bzhi_u32(0xFFFF, n));
    const __m512i some = _mm512_maskz_loadu_epi32(is_word, words.data() + i);
    unsigned is_wanted = 0;
    for (std::size_t j = 0; j < wanted.size(); ++j) {
      const __mmask16 is_it =
          _mm512_mask_cmpeq_epi32_mask(is_word, some, _mm512_set1_epi32(static_cast<int>(wanted[j])));
      is_wanted |= is_it;
      bits |= std::uint64_t{is_it != 0} << j;
    }
    const __m128i found = _mm_maskz_loadu_epi8(static_cast<__mmask16>(is_wanted), impacts + i);
    sums = _mm_add_epi64(sums, _mm_sad_epu8(found, _mm_setzero_si128()));
  }
  return static_cast<std::uint32_t>(_mm_cvtsi128_si32(sums) + _mm_extract_epi32(sums, 2));
}
#endif

}  // namespace

void QueryWords::assign(std::span<const WeightedTerm> words) {
  words_.clear();
  for (const WeightedTerm& word : words) words_.push_back(word.term);
  for (const std::uint16_t slot : used_) slots_[slot] = kNone;
  used_.clear();
  is_exact_ = true;
  for (std::size_t i = 0; i < words_.size(); ++i) {
    const std::uint32_t slot = slot_of(words_[i]);
    if (slots_[slot] != kNone) is_exact_ = false;
    slots_[slot] = words_[i];
    bits_[slot] = bit_of(i);
    used_.push_back(static_cast<std::uint16_t>(slot));
  }
}

QueryWords::Found QueryWords::find(const LexicalIndex& index, std::size_t title) const {
  const auto words = index.words_of[index.find_row(title)];
  const std::uint8_t* impacts = index.impacts.data() + (words.data() - index.words_of.ids.data());
  const Sum sum = add_impacts(words, impacts);
  return {index.scale * static_cast<float>(sum.impacts), sum.words};
}

QueryWords::Sum QueryWords::add_impacts(std::span<const std::int32_t> words, const std::uint8_t* impacts) const {
  Sum sum{};
#ifdef MATCHSET_AVX512
  if (has_avx512 && words_.size() <= kFewWords) {
    sum.impacts = add_avx512(words, impacts, words_, sum.words);
    return sum;
  }
#endif
  for (std::size_t i = 0; i < words.size(); ++i) {  // without a branch: which words match cannot be predicted
    const auto word = static_cast<std::uint32_t>(words[i]);
    const std::uint32_t slot = slot_of(word);
    bool is_wanted = slots_[slot] == word;
    std::uint64_t bit = bits_[slot];
    if (!is_exact_) {
      const auto place = std::ranges::find(words_, word) - words_.begin();
      is_wanted = static_cast<std::size_t>(place) < words_.size();
      bit = bit_of(static_cast<std::size_t>(place));
    }
    is_wanted &= word != kNone;
    sum.impacts += is_wanted ? impacts[i] : 0U;
    sum.words |= is_wanted ? bit : 0U;
  }
  return sum;
}

}  // namespace matchset
