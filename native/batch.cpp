#include "batch.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "beam_search.hpp"
#include "threads.hpp"

namespace matchset {
namespace {

struct Span {
  std::size_t begin = 0, end = 0;
};

// QueryLists of items, one per query of a group, stored in the order in which they were added.
template <typename T>
struct QueryLists {
  std::vector<T> items;
  std::vector<Span> parts;

  void reset(std::size_t n) {
    items.clear();
    parts.assign(n, {});
  }
  void put(std::size_t i, const std::vector<T>& list) {
    parts[i] = {items.size(), items.size() + list.size()};
    items.insert(items.end(), list.begin(), list.end());
  }
  std::span<const T> operator[](std::size_t i) const {
    return std::span(items).first(parts[i].end).subspan(parts[i].begin);
  }
};

// Queries that are searched together, a level at a time. Queries whose best nodes are neighbors follow each other, so
// that one finds in the caches what the previous one loaded.
class Group {
 public:
  Group(const PackedView& tree, const SearchRule& rule) : tree_(tree), search_(tree, rule, scratch_) {}

  // Calls get_features(i, scratch) for each query, and leaves the results in `found`.
  template <typename GetFeatures>
  void search(std::size_t begin, std::size_t end, GetFeatures&& get_features, QueryLists<ScoredNode>& found) {
    const std::size_t n = end - begin, n_levels = tree_.n_levels();
    features_.reset(n);
    beams_.reset(n);
    found.reset(n);
    for (std::size_t i = 0; i < n; ++i) {
      const auto [ids, values] = get_features(begin + i, scratch_);
      search_.start(ids, values);
      search_.step(0);
      features_.put(i, scratch_.features);
      leave(i, n_levels == 1, found);
    }
    for (std::size_t level = 1; level < n_levels; ++level) {
      sort();
      std::swap(beams_, above_);
      beams_.reset(n);
      for (const auto& [node, i] : order_) {
        scratch_.features.assign(features_[i].begin(), features_[i].end());
        scratch_.beam.assign(above_[i].begin(), above_[i].end());
        search_.step(level);
        leave(i, level + 1 == n_levels, found);
      }
    }
  }

 private:
  void leave(std::size_t i, bool is_last, QueryLists<ScoredNode>& found) {
    if (!is_last) return beams_.put(i, scratch_.beam);
    search_.report();
    found.put(i, scratch_.found);
  }

  // Orders the queries whose beam is not empty by their best node.
  void sort() {
    order_.clear();
    for (std::uint32_t i = 0; i < beams_.parts.size(); ++i)
      if (const auto beam = beams_[i]; !beam.empty()) order_.emplace_back(node_of(beam.front()), i);
    std::sort(order_.begin(), order_.end());
  }

  const PackedView& tree_;
  SearchScratch scratch_;
  BeamSearch search_;
  QueryLists<Feature> features_;
  QueryLists<std::uint64_t> beams_, above_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> order_;  // node, query
};

// Queries per group: many, so that they share much, but few enough that every thread gets a group and that the beams
// do not fill the memory.
std::size_t group_size(std::size_t n, unsigned n_threads, const SearchRule& rule) {
  constexpr std::size_t kLeast = 64, kMost = 16384, kMostKeys = std::size_t{1} << 22;
  const std::size_t width = rule.allowed == nullptr ? rule.beam : std::max(rule.beam, kFew * filtered_k(rule));
  const std::size_t share = (n + std::max(1u, n_threads) - 1) / std::max(1u, n_threads);
  return std::max(kLeast, std::min({kMost, kMostKeys / width, share}));
}

template <typename GetFeatures>
Found search_all(const PackedView& tree, const SearchRule& rule, std::size_t n, unsigned n_threads,
                 GetFeatures&& get_features) {
  check(tree, rule);
  const std::size_t size = group_size(n, n_threads, rule);
  std::vector<QueryLists<ScoredNode>> groups((n + size - 1) / size);
  parallel_for(groups.size(), n_threads, [&](std::size_t g) {
    Group(tree, rule).search(g * size, std::min(n, (g + 1) * size), get_features, groups[g]);
  });
  Found found;
  found.offsets.assign(1, 0);
  found.offsets.reserve(n + 1);
  std::size_t total = 0;
  for (const auto& group : groups)
    for (const Span& part : group.parts)
      found.offsets.push_back(static_cast<std::int64_t>(total += part.end - part.begin));
  found.nodes.reserve(total);
  found.scores.reserve(total);
  for (auto& group : groups) {
    for (std::size_t i = 0; i < group.parts.size(); ++i)
      for (const auto& [node, score] : group[i]) {
        found.nodes.push_back(static_cast<std::int32_t>(node));
        found.scores.push_back(score);
      }
    group = {};
  }
  return found;
}

using Row = std::pair<std::span<const std::uint32_t>, std::span<const float>>;

}  // namespace

Found search_rows(const PackedView& tree, const CsrView& X, const SearchRule& rule, unsigned n_threads) {
  return search_all(tree, rule, X.n_rows(), n_threads, [&](std::size_t i, SearchScratch&) -> Row {
    const SparseRow row = X[i];
    return {{reinterpret_cast<const std::uint32_t*>(row.index.data()), row.size()}, row.value};
  });
}

Found search_texts(const PackedView& tree, const VocabularyView& vocabulary, const StringsView& texts,
                   const SearchRule& rule, unsigned n_threads) {
  return search_all(tree, rule, texts.size(), n_threads, [&](std::size_t i, SearchScratch& scratch) -> Row {
    vectorize(texts[i], vocabulary, scratch.query);
    return {scratch.query.ids, scratch.query.weights};
  });
}

}  // namespace matchset
