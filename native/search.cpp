#include "search.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "clones.hpp"
#include "margins.hpp"
#include "select.hpp"
#include "threads.hpp"

namespace matchset {
namespace {

// Nodes are ranked by cost, the negative logarithm of the score, which is never below zero. A key is the
// cost's bits above the node's number: the order of keys is the order of costs, equal ones by place. NaN,
// which only damaged weights give, comes after infinity.
std::uint64_t make_key(float cost, std::uint32_t node) {
  return std::uint64_t{std::bit_cast<std::uint32_t>(cost)} << 32 | node;
}
float cost_of(std::uint64_t key) { return std::bit_cast<float>(static_cast<std::uint32_t>(key >> 32)); }
std::uint32_t node_of(std::uint64_t key) { return static_cast<std::uint32_t>(key); }

// Costs of children from their margins: -log of their score, plus their parent's cost.
template <unsigned kPower>
inline __attribute__((always_inline)) void add_hinge(float* values, std::size_t n, float parent) {
  for (std::size_t i = 0; i < n; ++i) {
    const float miss = values[i] >= 1 ? 0.0F : 1 - values[i];
    float cost = miss;
    for (unsigned p = 1; p < kPower; ++p) cost *= miss;
    values[i] = parent + cost;
  }
}

MATCHSET_CLONES void to_costs(float* values, std::size_t n, float parent, unsigned hinge_power) {
  switch (hinge_power) {
    case 0:  // log(1 + exp(-m)), by the branch that cannot overflow
      for (std::size_t i = 0; i < n; ++i) {
        const float m = values[i];
        values[i] = parent + (m > 0 ? std::log1p(std::exp(-m)) : std::log1p(std::exp(m)) - m);
      }
      break;
    case 1: add_hinge<1>(values, n, parent); break;
    case 2: add_hinge<2>(values, n, parent); break;
    case 3: add_hinge<3>(values, n, parent); break;
    case 4: add_hinge<4>(values, n, parent); break;
    case 5: add_hinge<5>(values, n, parent); break;
    default: add_hinge<6>(values, n, parent);
  }
}

MATCHSET_CLONES void append_keys(const float* costs, std::uint32_t n, std::uint32_t first, std::uint64_t* out) {
  for (std::uint32_t i = 0; i < n; ++i) out[i] = make_key(costs[i], first + i);
}

constexpr std::size_t kAhead = 2;
constexpr std::size_t kNarrowBeam = 64, kFewKeys = 384;  // up to here it pays to know the worst after every block
// With a filter: up to kFew times k allowed leaves are all scored, of more at least kSpare times k.
constexpr std::size_t kFew = 4, kSpare = 2;

// One search through one tree.
class Descent {
 public:
  Descent(const PackedView& tree, const SearchRule& rule, SearchScratch& scratch)
      : tree_(tree), rule_(rule), s_(scratch), feature_bits_(tree.shuffle().bits) {}

  void run(std::span<const std::uint32_t> ids, std::span<const float> values) {
    s_.found.clear();
    if (ids.empty() || rule_.k == 0 || tree_.sizes.back() == 0) return;
    const Shuffle shuffle = tree_.shuffle();
    s_.features.clear();
    for (std::size_t f = 0; f < ids.size(); ++f) s_.features.push_back({shuffle(ids[f]), values[f]});
    s_.rows.reserve(s_.features.size());
    s_.beam.assign(1, make_key(0, 0));
    for (std::size_t level = 0; level < tree_.n_levels(); ++level) {
      expand(level);
      keep(level);
      std::swap(s_.beam, s_.keys);
    }
    report();
  }

 private:
  // Scores the children of all nodes in the beam. Memory is asked for ahead: the buckets of a block first,
  // the chunks they name kAhead blocks later, and both have come when its turn is.
  void expand(std::size_t level) {
    s_.keys.clear();
    s_.parents.clear();
    for (const std::uint64_t key : s_.beam) {
      const std::size_t parent = tree_.first_parent[level] + node_of(key);
      for (std::uint32_t b = tree_.first_block[parent]; b < tree_.first_block[parent + 1]; ++b)
        s_.parents.push_back({b, cost_of(key)});
    }
    const std::size_t n = s_.parents.size(), n_features = s_.features.size();
    s_.chunks.resize((kAhead + 1) * n_features);
    const auto chunks_of = [&](std::size_t p) { return &s_.chunks[p % (kAhead + 1) * n_features]; };
    const bool can_stop = level + 1 < tree_.n_levels() && rule_.beam <= kNarrowBeam;
    float worst = std::numeric_limits<float>::infinity();  // cost in a full beam: costs only grow on the way down
    for (std::size_t p = 0; p < n + 2 * kAhead; ++p) {
      if (p < n) ask_buckets(p);
      if (p >= kAhead && p - kAhead < n) ask_chunks(p - kAhead, chunks_of(p - kAhead));
      if (p < 2 * kAhead) continue;
      const std::size_t now = p - 2 * kAhead;
      if (s_.parents[now].cost > worst) return;  // parents come cheapest first
      score(level, view(now), s_.parents[now].cost, chunks_of(now));
      if (can_stop && s_.keys.size() <= kFewKeys && keep(level)) worst = cost_of(s_.keys.back());
    }
  }

  BlockView view(std::size_t p) const { return {tree_, s_.parents[p].block, feature_bits_}; }

  void ask_buckets(std::size_t p) const {
    const BlockView block = view(p);
    for (const auto& feature : s_.features) __builtin_prefetch(block.bucket_place(feature.hash));
  }

  void ask_chunks(std::size_t p, std::uint32_t* chunks) const {
    const BlockView block = view(p);
    for (std::size_t f = 0; f < s_.features.size(); ++f) {
      chunks[f] = block.chunk_at(s_.features[f].hash);
      __builtin_prefetch(block.begin + chunks[f]);
      __builtin_prefetch(block.begin + chunks[f] + 64);
    }
  }

  void score(std::size_t level, const BlockView& block, float parent_cost, const std::uint32_t* chunks) {
    alignas(64) float values[kMaxSiblings];
    compute_margins(block, tree_.precision, {s_.features, chunks}, s_.rows, values);
    to_costs(values, block.n_children, parent_cost, rule_.scoring.hinge_power);
    const std::size_t n = s_.keys.size();
    s_.keys.resize(n + block.n_children);
    append_keys(values, block.n_children, block.first_child, &s_.keys[n]);
    if (rule_.allowed == nullptr) return;
    std::size_t kept = n;
    for (std::size_t i = n; i < s_.keys.size(); ++i) {
      s_.keys[kept] = s_.keys[i];
      kept += rule_.allowed->has(level, node_of(s_.keys[i]));
    }
    s_.keys.resize(kept);
  }

  // Leaves the best of the level in s_.keys, best first; whether they are as many as wanted.
  bool keep(std::size_t level) {
    const bool is_last = level + 1 == tree_.n_levels();
    if (!is_last && rule_.allowed != nullptr) return keep_allowed(level);
    const std::size_t wanted = is_last ? rule_.k : rule_.beam;
    keep_smallest(s_.keys, wanted, s_.spare);
    return s_.keys.size() >= wanted;
  }

  bool keep_allowed(std::size_t level) {
    keep_smallest(s_.keys, s_.keys.size(), s_.spare);
    const std::size_t total = rule_.allowed->total();
    const std::size_t wanted = total / kFew <= rule_.k ? total : kSpare * rule_.k;
    std::size_t n = 0;
    std::uint64_t below = 0;
    const auto is_full = [&] { return n >= rule_.beam && below >= wanted; };
    while (n < s_.keys.size() && !is_full()) below += rule_.allowed->below(level, node_of(s_.keys[n++]));
    s_.keys.resize(n);
    return is_full();
  }

  void report() {
    for (const std::uint64_t key : s_.beam) {
      const float cost = cost_of(key);
      const float score = rule_.scoring.is_log ? -cost : std::exp(-cost);
      if (!(score >= rule_.scoring.min_score)) break;  // NaN, too: all that follow are no better
      s_.found.push_back({node_of(key), score});
    }
  }

  const PackedView& tree_;
  const SearchRule& rule_;
  SearchScratch& s_;
  unsigned feature_bits_;
};

// Calls find(i, scratch) for each of n queries, in threads where there are many, and joins what they found.
template <typename Find>
Found find_all(std::size_t n, unsigned n_threads, Find&& find) {
  constexpr std::size_t kChunk = 64;
  const std::size_t n_chunks = (n + kChunk - 1) / kChunk;
  std::vector<std::vector<Candidate>> parts(n_chunks);
  Found found;
  found.offsets.assign(n + 1, 0);
  parallel_for(n_chunks, n_threads, [&](std::size_t chunk) {
    static thread_local SearchScratch scratch;
    parts[chunk].reserve(std::min(kChunk * 128, n * 128));
    for (std::size_t i = chunk * kChunk; i < std::min(n, (chunk + 1) * kChunk); ++i) {
      find(i, scratch);
      parts[chunk].insert(parts[chunk].end(), scratch.found.begin(), scratch.found.end());
      found.offsets[i + 1] = static_cast<std::int64_t>(scratch.found.size());
    }
  });
  for (std::size_t i = 0; i < n; ++i) found.offsets[i + 1] += found.offsets[i];
  found.nodes.reserve(static_cast<std::size_t>(found.offsets[n]));
  found.scores.reserve(static_cast<std::size_t>(found.offsets[n]));
  for (auto& part : parts) {
    for (const Candidate& candidate : part) {
      found.nodes.push_back(static_cast<std::int32_t>(candidate.node));
      found.scores.push_back(candidate.score);
    }
    part = {};
  }
  return found;
}

}  // namespace

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

void search_one(const PackedView& tree, std::span<const std::uint32_t> ids, std::span<const float> values,
                const SearchRule& rule, SearchScratch& scratch) {
  if (rule.beam == 0) throw std::invalid_argument("beam must be at least 1; got 0");
  if (rule.allowed != nullptr && !rule.allowed->fits(tree)) throw std::invalid_argument("allowed must be of this tree");
  Descent(tree, rule, scratch).run(ids, values);
}

Found search_rows(const PackedView& tree, const CsrView& X, const SearchRule& rule, unsigned n_threads) {
  return find_all(X.n_rows(), n_threads, [&](std::size_t i, SearchScratch& scratch) {
    const SparseRow row = X[i];
    const std::span ids(reinterpret_cast<const std::uint32_t*>(row.index.data()), row.size());
    search_one(tree, ids, row.value, rule, scratch);
  });
}

Found search_texts(const PackedView& tree, const VocabularyView& vocabulary, const StringsView& texts,
                   const SearchRule& rule, unsigned n_threads) {
  return find_all(texts.size(), n_threads, [&](std::size_t i, SearchScratch& scratch) {
    vectorize(texts[i], vocabulary, scratch.query);
    search_one(tree, scratch.query.ids, scratch.query.weights, rule, scratch);
  });
}

}  // namespace matchset
