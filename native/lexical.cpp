#include "lexical.hpp"

#include <algorithm>

namespace matchset {

void QueryWords::assign(std::span<const WeightedTerm> words) {
  words_.assign(words.begin(), words.end());
  for (const std::uint16_t slot : used_) slots_[slot] = {kNone, 0.0F};
  used_.clear();
  is_exact_ = true;
  for (const WeightedTerm& word : words_) {
    const std::uint32_t slot = slot_of(word.term);
    if (slots_[slot].term != kNone) is_exact_ = false;
    slots_[slot] = word;
    used_.push_back(static_cast<std::uint16_t>(slot));
  }
}

float QueryWords::score(const LexicalIndex& index, std::size_t title) const {
  const auto words = index.words_of[index.find_row(title)];
  const std::uint8_t* impacts = index.impacts.data() + (words.data() - index.words_of.ids.data());
  float sum = 0;
  if (is_exact_) {
    for (std::size_t i = 0; i < words.size(); ++i) {  // without a branch: which words match cannot be predicted
      const auto word = static_cast<std::uint32_t>(words[i]);
      const WeightedTerm& wanted = slots_[slot_of(word)];
      sum += wanted.term == word ? wanted.weight * static_cast<float>(impacts[i]) : 0.0F;
    }
    return index.scale * sum;
  }
  for (std::size_t i = 0; i < words.size(); ++i)
    for (const WeightedTerm& wanted : words_)
      if (wanted.term == static_cast<std::uint32_t>(words[i])) sum += wanted.weight * static_cast<float>(impacts[i]);
  return index.scale * sum;
}

}  // namespace matchset
