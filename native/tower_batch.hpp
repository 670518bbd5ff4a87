// Batch: which texts does a step of training compare, and which embeddings does it touch?
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "csr.hpp"

namespace matchset {

// Texts as lists of n-grams that have an embedding, and the pairs to learn from.
struct TowerData {
  ListsView queries;                     // queries x features
  ListsView titles;                      // products x features
  ListsView positives;                   // queries x products
  std::span<const std::int32_t> query;   // of each pair
  std::span<const std::int32_t> product; // of each pair
  std::size_t n_features;
};

struct TowerRule {
  std::size_t dimensions;  // of a vector, a multiple of 16
  float temperature;       // cosines are divided by it
  float title_share;       // of a title's n-grams that must find the title; 0: no such rows
  float learning_rate;     // at the start; it falls to zero along a half cosine
  std::uint64_t seed;
  int title_mode = 0;
};

// Rows that are compared with columns: a softmax over the columns must find each row's target.
struct Block {
  std::size_t n_rows = 0, n_columns = 0;
  std::size_t first_text = 0;              // rows are texts from here on, then come the columns
  std::vector<std::uint32_t> target;       // column of each row
  std::vector<std::uint32_t> mask_begin;   // (n_rows + 1,)
  std::vector<std::uint32_t> mask;         // columns that are neither right nor wrong for a row

  std::size_t n_texts() const { return n_rows + n_columns; }
};

class Batch {
 public:
  Batch(const TowerData& data, const TowerRule& rule);

  // Takes the pairs listed in `pairs`; `step` decides the draws. Throws where data is not as it should be.
  void take(std::span<const std::int32_t> pairs, std::uint64_t step);

  std::vector<Block> blocks;
  std::vector<std::uint32_t> text_begin;     // features of each text, (n_texts + 1,)
  std::vector<std::int32_t> text_features;   // (n_entries,)
  std::vector<std::int32_t> features;        // distinct, in the order in which texts have them
  std::vector<std::uint32_t> feature_begin;  // texts of each feature, ascending, (n_distinct + 1,)
  std::vector<std::uint32_t> feature_texts;  // (n_entries,)

  std::size_t n_texts() const { return text_begin.size() - 1; }
  std::size_t n_rows() const;

 private:
  void add_text(std::span<const std::int32_t> features);
  void add_part(std::span<const std::int32_t> features, std::uint64_t place);
  void add_mask(Block& block, std::span<const std::int32_t> products, std::uint32_t target);
  void number_columns(std::span<const std::int32_t> products);
  void forget_columns(std::span<const std::int32_t> products);
  void transpose();

  const TowerData& data_;
  const TowerRule& rule_;
  std::vector<std::uint32_t> slot_of_;     // of each feature: one more than its place in `features`, or 0
  std::vector<std::uint32_t> column_of_;   // of each product: one more than its last column, or 0
  std::vector<std::uint32_t> previous_;    // of each column: one more than the product's column before it, or 0
  std::vector<std::uint32_t> slots_;       // of each entry
  std::vector<std::int32_t> products_, drawn_;
};

}  // namespace matchset
