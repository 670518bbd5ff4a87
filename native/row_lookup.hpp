// Row lookup: where in a block are the weights of a query's features?
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "packed.hpp"

namespace matchset {

struct Feature {
  std::uint32_t hash;  // its shuffled number
  float value;
};

struct FeatureChunks {
  std::span<const Feature> features;
  const std::uint32_t* chunks;  // BlockView::chunk_at of each feature
};

struct FoundRow {
  std::uint32_t at;  // from the start of the block
  std::uint32_t room;
  float value;
};

struct RowForm {
  std::uint32_t size;  // bytes; for "no row", more than any block has
  std::uint16_t room;
  std::uint16_t list;  // 0 dense, 1 bitmap, 2 sparse
};

// Forms of rows by their code plus one, for one shape.
struct RowForms {
  RowForm of[kDenseCode + 3];
  alignas(64) std::uint16_t sizes[kDenseCode + 1];  // bytes, by code
  RowShape shape{0, 0};

  void prepare(const RowShape& wanted);
};

// Rows of a block that the features of a query have, by form: dense, bitmap, sparse.
struct FoundRows {
  std::vector<FoundRow> rows[3];
  std::size_t n[3] = {0, 0, 0};

  void reserve(std::size_t n_features) {
    const std::size_t room = n_features + 1;  // one more: a missing row is written too, but not counted
    for (auto& form : rows)
      if (form.size() < room) form.resize(room);
  }
  std::span<const FoundRow> found(std::size_t form) const { return std::span(rows[form]).first(n[form]); }
};

// Finds rows in blocks. Successive blocks tend to have one of a few shapes, whose tables are cached.
class RowFinder {
 public:
  // Fills `out`, each form in the order of the features, and prefetches the rows.
  void find(const BlockView& block, Precision precision, const FeatureChunks& features, FoundRows& out);

 private:
  RowForms forms_[4];
};

}  // namespace matchset
