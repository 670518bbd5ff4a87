// Label tree: which labels should be scored together?
#pragma once

#include <cstdint>
#include <vector>

#include "csr.hpp"
#include "two_means.hpp"

namespace matchset {

// Orders the rows of `embeddings` (of length one) so that every node of the tree is a range.
//
// Every node is split into min(splits[level], size) even parts by balanced two-way cuts: spherical
// 2-means in which the cut is set by the wanted sizes (after Malinen and Fraenti 2014).
// The order depends on the seed alone, not on the number of threads.
std::vector<std::int32_t> order_labels(const CsrView& embeddings, const TreePlan& plan, unsigned n_threads);

}  // namespace matchset
