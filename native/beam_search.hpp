// Beam search: which nodes of each level does one query follow?
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "packed.hpp"
#include "search.hpp"

namespace matchset {

// One search in one tree. Between levels, its whole state is the beam in its scratch.
class BeamSearch {
 public:
  BeamSearch(const PackedView& tree, const SearchRule& rule, SearchScratch& scratch);

  // Takes the features of a query and puts the root into the beam, or nothing if nothing can be found.
  void start(std::span<const std::uint32_t> ids, std::span<const float> values);
  // Replaces the nodes of the beam by the best of their children, which are at `level`.
  void step(std::size_t level);
  // Copies the leaves in the beam to scratch.found.
  void report();

 private:
  void expand(std::size_t level);
  float worst_kept(std::size_t level);
  BlockView view(std::size_t p) const { return {tree_, s_.parents[p].block, feature_bits_}; }
  void prefetch_buckets(std::size_t p) const;
  void prefetch_chunks(std::size_t p, std::uint32_t* chunks) const;
  void find_rows(std::size_t p, const std::uint32_t* chunks);
  void score(std::size_t level, std::size_t p);
  bool keep(std::size_t level);
  bool keep_allowed(std::size_t level);

  const PackedView& tree_;
  const SearchRule& rule_;
  SearchScratch& s_;
  unsigned feature_bits_;
};

// The node of an entry of the beam.
inline std::uint32_t node_of(std::uint64_t key) { return static_cast<std::uint32_t>(key); }

// With a filter that allows at most kFew * k leaves, all of them are scored; else at least kSpare * k. Up to kLeastK
// leaves are searched for alike, so that fewer are the first of more.
inline constexpr std::size_t kFew = 4, kSpare = 2, kLeastK = 100;
inline std::size_t filtered_k(const SearchRule& rule) { return std::max(rule.k, kLeastK); }

}  // namespace matchset
