// Beam search: which labels fit an instance best?
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "csr.hpp"

namespace matchset {

// Weights of one layer, by parent, feature and child; arrays may be memory-mapped and are checked when touched.
struct LayerView {
  std::span<const std::int64_t> first_child;    // of each parent, and the end, (n_parents + 1,)
  ListsView features;                           // of each parent, ascending
  std::span<const std::int64_t> first_entry;    // of each feature row, and the end, (n_rows + 1,)
  std::span<const std::uint16_t> children;      // number among its siblings, (n_entries,)
  std::span<const float> weights;               // (n_entries,)
  std::span<const float> bias;                  // of each child, (n_children,)
};

struct Found {
  std::vector<std::int64_t> offsets;  // (n_instances + 1,)
  std::vector<std::int32_t> nodes;    // places in the last layer, best first
  std::vector<float> scores;
};

// The k best nodes of the last layer for each row of X; every other layer keeps the `beam` best.
//
// A node scores exp(-max(0, 1 - w.x)^3) times its parent's score; equal scores go by place. A row
// without features finds nothing.
Found search(std::span<const LayerView> layers, const CsrView& X, std::size_t beam, std::size_t k, unsigned n_threads);

}  // namespace matchset
