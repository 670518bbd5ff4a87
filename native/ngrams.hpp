// N-grams: which words and character sequences does a query have?
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "strings.hpp"

namespace matchset {

enum class Unit : std::uint8_t { word = 0, character = 1 };

struct NGramKind {
  Unit unit;
  unsigned n;

  // Each kind has its own hash seed, so that the word "red" and the trigram "red" are two features.
  std::uint64_t seed() const { return std::uint64_t{n} << 8 | static_cast<std::uint64_t>(unit); }
};

// A normalized text between two spaces: " red shoes ". Every n-gram is a slice of it: a space inside a word n-gram
// joins two words, and at the edge of a character n-gram it marks a word boundary. Both are shown as "#". No word
// n-gram spans two spaces in a row.
class PaddedText {
 public:
  void assign(std::string_view normalized) {
    text_.assign(1, ' ');
    text_.insert(text_.end(), normalized.begin(), normalized.end());
    close();
  }
  // To write a text directly: open, append to what is returned, close.
  std::vector<char>& open() {
    text_.assign(1, ' ');
    return text_;
  }
  void close() {
    if (text_.size() > 1) text_.push_back(' ');
    word_starts_.clear();
    unsigned char bits = 0;
    for (std::size_t i = 1; i < text_.size(); ++i) {
      bits |= static_cast<unsigned char>(text_[i]);
      if (text_[i - 1] == ' ') word_starts_.push_back(static_cast<std::uint32_t>(i));
    }
    word_starts_.push_back(static_cast<std::uint32_t>(text_.size()));
    is_ascii_ = bits < 0x80;
  }
  // The text without its padding.
  std::string_view text() const { return {text_.data() + 1, text_.size() < 2 ? 0 : text_.size() - 2}; }
  std::string_view slice(std::size_t begin, std::size_t length) const { return {text_.data() + begin, length}; }

  // Calls visit(begin, length) for every n-gram of this kind, from left to right.
  template <typename Visit>
  void for_each(NGramKind kind, Visit&& visit) {
    if (kind.unit == Unit::word) {
      for (std::size_t i = 0; i + kind.n < word_starts_.size(); ++i)
        if (!has_gap(i, kind.n)) visit(word_starts_[i], word_starts_[i + kind.n] - 1 - word_starts_[i]);
      return;
    }
    for (std::size_t word = 0; word + 1 < word_starts_.size(); ++word) {
      const std::uint32_t begin = word_starts_[word] - 1, end = word_starts_[word + 1];
      if (end - begin <= kind.n) {  // a short word is one n-gram
        visit(begin, end - begin);
      } else if (is_ascii_) {
        for (std::uint32_t i = begin; i + kind.n <= end; ++i) visit(i, kind.n);
      } else {
        for_each_character_ngram(begin, end, kind.n, visit);
      }
    }
  }

 private:
  // Whether one of n words is empty: between two spaces.
  bool has_gap(std::size_t first, std::size_t n) const {
    for (std::size_t i = first; i < first + n; ++i)
      if (word_starts_[i + 1] - word_starts_[i] == 1) return true;
    return false;
  }
  // N-grams of one word with its spaces, where characters may take several bytes.
  template <typename Visit>
  void for_each_character_ngram(std::uint32_t begin, std::uint32_t end, unsigned n, Visit&& visit) {
    char_starts_.clear();
    for (std::uint32_t i = begin; i < end; ++i)
      if ((static_cast<unsigned char>(text_[i]) & 0xC0) != 0x80) char_starts_.push_back(i);
    char_starts_.push_back(end);
    const std::size_t n_chars = char_starts_.size() - 1;
    if (n_chars <= n) return visit(begin, end - begin);
    for (std::size_t i = 0; i + n <= n_chars; ++i) visit(char_starts_[i], char_starts_[i + n] - char_starts_[i]);
  }

  std::vector<char> text_;
  std::vector<std::uint32_t> word_starts_;  // of each word, and one past the last space
  std::vector<std::uint32_t> char_starts_;  // of each character of one word with its spaces, and the end
  bool is_ascii_ = true;
};

// Appends an n-gram as people read it, with "#" for spaces.
inline void append_shown(std::string_view ngram, OwnedStrings& out) {
  for (const char c : ngram) out.data.push_back(c == ' ' ? '#' : c);
  out.offsets.push_back(static_cast<std::int64_t>(out.data.size()));
}

}  // namespace matchset
