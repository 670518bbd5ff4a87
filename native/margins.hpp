// Margins: how strongly does a query call for each child of a block?
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
  std::uint32_t size;  // bytes; of no row, more than any block has
  std::uint16_t room;
  std::uint16_t list;  // 0 dense, 1 bitmap, 2 sparse
};

// Forms of rows by their code plus one, for one shape at a time.
struct RowForms {
  RowForm of[kDenseCode + 3];
  RowShape shape{0, 0};

  void prepare(const RowShape& wanted) {
    if (shape.n_children == wanted.n_children && shape.weight_bytes == wanted.weight_bytes) return;
    shape = wanted;
    of[0] = of[kDenseCode + 2] = {~0U, 1, 2};
    for (std::uint32_t code = 0; code <= kDenseCode; ++code) {
      const std::uint32_t room = shape.room(code);
      const unsigned list = code == kDenseCode ? 0 : room >= shape.bitmap_from() ? 1 : 2;
      of[code + 1] = {shape.size(code), static_cast<std::uint16_t>(room), static_cast<std::uint16_t>(list)};
    }
  }
};

// Rows of a block that the features of a query have, by form: dense, bitmap, sparse.
struct FoundRows {
  RowForms forms;
  std::vector<FoundRow> rows[3];
  std::size_t n[3] = {0, 0, 0};

  void reserve(std::size_t n_features) {
    for (auto& form : rows)
      if (form.size() < n_features + 1) form.resize(n_features + 1);  // a row that is not there is written, not counted
  }
  std::span<const FoundRow> found(std::size_t form) const { return std::span(rows[form]).first(n[form]); }
};

// Writes bias + w.x of each child to `margins`, of kMaxSiblings floats. Sums go form by form, and within one
// in the order of the features.
void compute_margins(const BlockView& block, Precision precision, const FeatureChunks& features, FoundRows& rows,
                     float* margins);

}  // namespace matchset
