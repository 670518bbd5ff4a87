// Batch: which texts does a step of training compare, and which embeddings does it touch?
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "csr.hpp"
#include "rng.hpp"
#include "tower_kernels.hpp"

namespace matchset {

// Texts as lists of n-grams that have an embedding, and the pairs to learn from.
struct TowerData {
  ListsView queries;                      // queries x features
  ListsView titles;                       // products x features
  ListsView positives;                    // queries x products
  std::span<const std::int32_t> query;    // of each pair
  std::span<const std::int32_t> product;  // of each pair
  std::span<const std::int32_t> titled;   // products whose title has a feature
  std::size_t n_features;
};

struct TowerRule {
  std::size_t dimensions;  // of a vector, a multiple of 16
  float temperature;       // cosines are divided by it
  float title_rows;        // titles per pair that must be found by a part of themselves
  float title_share;       // of their n-grams
  float learning_rate;     // at the start; it falls to zero along a half cosine
  std::uint64_t seed;
};

// Rows and as many columns: each row must find its own column, by a softmax over all of them.
struct Block {
  std::size_t size = 0;                   // rows, and columns
  std::size_t first_text = 0;             // of the rows; the columns are the texts after them
  std::vector<std::uint32_t> mask_begin;  // (size + 1,)
  std::vector<std::uint32_t> mask;        // columns that are neither right nor wrong for a row
};

class Batch {
 public:
  Batch(const TowerData& data, const TowerRule& rule);

  // Takes these pairs, and titles that `step` draws. Throws where an id is out of bounds.
  void take(std::span<const std::int32_t> pairs, std::uint64_t step);
  // Titles beside so many pairs.
  static std::size_t count_titles(const TowerData& data, const TowerRule& rule, std::size_t n_pairs);

  Block blocks[2];                           // queries and titles of pairs; parts of titles and titles
  std::vector<std::uint32_t> text_begin;     // features of each text, (n_texts + 1,)
  std::vector<std::int32_t> text_features;   // (n_entries + kReadAhead,)
  std::vector<std::int32_t> features;        // distinct, in the order in which texts have them
  std::vector<std::uint32_t> feature_begin;  // texts of each feature, ascending, (n_distinct + 1,)
  std::vector<std::uint32_t> feature_texts;  // (n_entries + kReadAhead,)

  std::size_t n_texts() const { return text_begin.size() - 1; }
  std::size_t n_rows() const { return blocks[0].size + blocks[1].size; }

 private:
  void take_pairs(std::span<const std::int32_t> pairs);
  void take_titles(std::size_t n_titles, std::uint64_t step);
  void add_text(std::span<const std::int32_t> features);
  void add_part(std::span<const std::int32_t> features, Draws draws);
  void add_columns();
  void add_mask(Block& block, std::span<const std::int32_t> products);
  void number_columns();
  void transpose();

  const TowerData& data_;
  const TowerRule& rule_;
  std::vector<std::int32_t> products_;    // of the columns of a block
  std::vector<std::uint32_t> column_of_;  // of each product: one more than its last column, or 0
  std::vector<std::uint32_t> previous_;   // of each column: one more than the same product's column before, or 0
  std::vector<std::uint32_t> slot_of_;    // of each feature: one more than its place in `features`, or 0
  std::vector<std::uint32_t> slots_;      // of each entry
};

}  // namespace matchset
