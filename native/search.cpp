#include "search.hpp"

#include <stdexcept>

#include "beam_search.hpp"

namespace matchset {

Allowed::Allowed(const PackedView& tree, std::span<const std::uint8_t> is_allowed) : sizes_(tree.sizes) {
  if (is_allowed.size() != sizes_.back()) throw std::invalid_argument("allowed must have one entry per leaf");
  leaves_.assign((is_allowed.size() + 63) / 64, 0);
  for (std::size_t i = 0; i < is_allowed.size(); ++i) {
    leaves_[i / 64] |= std::uint64_t{is_allowed[i] != 0} << i % 64;
    total_ += is_allowed[i] != 0;
  }
  counts_.resize(sizes_.size());
  for (std::size_t level = sizes_.size() - 1; level > 0; --level) {  // from the leaves up
    auto& counts = counts_[level - 1];
    counts.assign(sizes_[level - 1], 0);
    for (std::uint32_t node = 0; node < sizes_[level - 1]; ++node) {
      const std::size_t parent = tree.first_parent[level] + node;
      for (std::size_t b = tree.first_block[parent]; b < tree.first_block[parent + 1]; ++b)
        for (std::uint32_t c = 0; c <= tree.blocks[b].last_child; ++c) {
          const std::uint32_t child = tree.blocks[b].first_child + c;
          counts[node] += level + 1 < sizes_.size() ? counts_[level][child] : is_allowed[child] != 0;
        }
    }
  }
}

void check(const PackedView& tree, const SearchRule& rule) {
  if (rule.beam == 0) throw std::invalid_argument("beam must be at least 1; got 0");
  if (rule.allowed != nullptr && !rule.allowed->fits(tree)) throw std::invalid_argument("allowed must be of this tree");
}

void search_one(const PackedView& tree, std::span<const std::uint32_t> ids, std::span<const float> values,
                const SearchRule& rule, SearchScratch& scratch) {
  check(tree, rule);
  BeamSearch search(tree, rule, scratch);
  search.start(ids, values);
  for (std::size_t level = 0; level < tree.n_levels(); ++level) search.step(level);
  search.report();
}

}  // namespace matchset
