#include "lexical.hpp"

namespace matchset {

void QueryWords::assign(std::span<const WeightedTerm> words) {
  words_.assign(words.begin(), words.end());
  filter_.fill(0);
  for (const WeightedTerm& word : words_) {
    const std::uint32_t bit = bit_of(word.term);
    filter_[bit / 64] |= std::uint64_t{1} << bit % 64;
  }
}

float QueryWords::score(const LexicalIndex& index, std::size_t title) const {
  const auto words = index.words_of[title];
  const std::size_t begin = index.words_of.begin_of(title);
  float sum = 0;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const auto word = static_cast<std::uint32_t>(words[i]);
    const std::uint32_t bit = bit_of(word);
    if ((filter_[bit / 64] >> bit % 64 & 1) == 0) continue;
    for (const WeightedTerm& wanted : words_)
      if (wanted.term == word) sum += wanted.weight * static_cast<float>(index.impacts[begin + i]);
  }
  return index.scale * sum;
}

}  // namespace matchset
