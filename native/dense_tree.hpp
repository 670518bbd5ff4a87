// Clusters of dense vectors: which products should be looked at together?
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "two_means.hpp"
#include "vectors.hpp"

namespace matchset {

// Orders vectors so that every cluster is a range: as order_labels (tree.hpp) does for sparse rows, by
// balanced two-way cuts. The order depends on the seed alone.
std::vector<std::int32_t> order_vectors(const ByteVectors& vectors, const TreePlan& plan, unsigned n_threads);

// Mean of each range of vectors, of length one, (n_ranges, dimensions).
std::vector<float> mean_vectors(const ByteVectors& vectors, std::span<const std::int64_t> offsets, unsigned n_threads);

}  // namespace matchset
