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
// With a subtree, the rows are its own: they are ordered as they would be inside the whole tree.
std::vector<std::int32_t> order_labels(const CsrView& embeddings, const TreePlan& plan, const Subtree& root,
                                       unsigned n_threads);

// The whole tree as a subtree.
Subtree whole_tree(const CsrView& embeddings, const TreePlan& plan);

// The top of a large tree: labels in the order of its subtrees, and ascending in each.
struct TreeTop {
  std::vector<std::int32_t> order;
  std::vector<Subtree> subtrees;
};

// Cuts nodes of more than `most` labels. Of more than `n_sampled` labels, 2-means sees a sample, one of each of so many
// even ranges; all labels then take their sides by their scores. So memory is bounded by the sample and a few bytes per
// label. Without a sample, cuts are those of order_labels.
TreeTop cut_top(const CsrView& embeddings, const TreePlan& plan, std::size_t most, std::size_t n_sampled,
                unsigned n_threads);

}  // namespace matchset
