// Search: which labels fit a query best?
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "packed.hpp"
#include "row_lookup.hpp"
#include "vectorize.hpp"

namespace matchset {

// How a margin w.x becomes a score, and what is returned.
struct Scoring {
  unsigned hinge_power = 3;  // exp(-max(0, 1 - w.x)^power); 0 is the sigmoid of w.x
  bool is_log = false;       // return logarithms
  float min_score = 0;       // of what is returned; with is_log, a logarithm
};

// Leaf positions that may be returned, and their number below each node.
class Allowed {
 public:
  // `is_allowed` has one byte per leaf position.
  Allowed(const PackedView& tree, std::span<const std::uint8_t> is_allowed);

  std::uint32_t total() const { return total_; }
  std::uint32_t below(std::size_t level, std::uint32_t node) const { return counts_[level][node]; }
  bool has(std::size_t level, std::uint32_t node) const {
    return level + 1 < counts_.size() ? counts_[level][node] != 0 : (leaves_[node / 64] >> node % 64 & 1) != 0;
  }
  bool fits(const PackedView& tree) const { return sizes_ == tree.sizes; }

 private:
  std::vector<std::uint32_t> sizes_;
  std::vector<std::vector<std::uint32_t>> counts_;  // per level; empty for the last
  std::vector<std::uint64_t> leaves_;
  std::uint32_t total_ = 0;
};

struct SearchRule {
  std::size_t k;
  std::size_t beam;
  Scoring scoring{};
  const Allowed* allowed = nullptr;
};

// Throws if the rule does not fit this tree.
void check(const PackedView& tree, const SearchRule& rule);

struct ScoredNode {
  std::uint32_t node;
  float score;
};

// Memory of one search, reused from query to query; `found` is sorted, best first.
struct SearchScratch {
  std::vector<ScoredNode> found;

  struct Parent {
    std::uint32_t block;
    float cost;
  };
  std::vector<Feature> features;
  std::vector<Parent> parents;
  RowFinder finder;
  FoundRows rows[2];                             // of one parent and the next
  std::vector<std::uint32_t> chunks;             // per parent ahead and feature
  std::vector<std::uint64_t> beam, keys, spare;  // cost and node, see beam_search.cpp
  QueryFeatures query;
};

// The k best leaves for one sparse vector, into scratch.found; every other level keeps the `beam` best
// nodes. A leaf's score is the product of the scores on its path; ties go to the lower leaf
// position. A vector without features finds nothing.
//
// With `allowed`, nodes without any allowed leaf stay out of the beam, and a level keeps more than `beam` nodes until
// enough allowed leaves lie below them: all of them if they are few, else 2 * max(k, 100).
void search_one(const PackedView& tree, std::span<const std::uint32_t> ids, std::span<const float> values,
                const SearchRule& rule, SearchScratch& scratch);

}  // namespace matchset
