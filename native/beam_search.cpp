#include "beam_search.hpp"

#include <bit>
#include <cmath>
#include <limits>

#include "margins.hpp"
#include "prefetch.hpp"
#include "select.hpp"
#include "target_clones.hpp"

namespace matchset {
namespace {

// Nodes are ranked by cost, the negative logarithm of the score, which is never below zero. A key is the
// cost's bits above the node's number: the order of keys is the order of costs, ties by node number. NaN,
// which only damaged weights give, comes after infinity.
std::uint64_t make_key(float cost, std::uint32_t node) {
  return std::uint64_t{std::bit_cast<std::uint32_t>(cost)} << 32 | node;
}
float cost_of(std::uint64_t key) { return std::bit_cast<float>(static_cast<std::uint32_t>(key >> 32)); }

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
// A beam up to kNarrowBeam, with up to kFewKeys candidates, is worth cutting after every block, to know its worst cost;
// the leaves are cut when there are kManyTimes k.
constexpr std::size_t kNarrowBeam = 64, kFewKeys = 384, kManyTimes = 5;

}  // namespace

BeamSearch::BeamSearch(const PackedView& tree, const SearchRule& rule, SearchScratch& scratch)
    : tree_(tree), rule_(rule), s_(scratch), feature_bits_(tree.shuffle().bits) {}

void BeamSearch::start(std::span<const std::uint32_t> ids, std::span<const float> values) {
  const Shuffle shuffle = tree_.shuffle();
  s_.features.clear();
  for (std::size_t f = 0; f < ids.size(); ++f) s_.features.push_back({shuffle(ids[f]), values[f]});
  s_.beam.clear();
  if (!ids.empty() && rule_.k > 0 && tree_.sizes.back() > 0) s_.beam.push_back(make_key(0, 0));
}

void BeamSearch::step(std::size_t level) {
  for (FoundRows& rows : s_.rows) rows.reserve(s_.features.size());
  expand(level);
  keep(level);
  std::swap(s_.beam, s_.keys);
}

// Scores the children of all nodes in the beam. Memory is prefetched in a pipeline: first the buckets of a block,
// kAhead blocks later the chunks they point to, kAhead blocks later the rows found there, which are added one block
// later.
void BeamSearch::expand(std::size_t level) {
  s_.keys.clear();
  s_.parents.clear();
  for (const std::uint64_t key : s_.beam) {
    const std::size_t parent = tree_.first_parent[level] + node_of(key);
    for (std::uint32_t b = tree_.first_block[parent]; b < tree_.first_block[parent + 1]; ++b)
      s_.parents.push_back({b, cost_of(key)});
  }
  std::size_t n = s_.parents.size();
  const std::size_t n_features = s_.features.size();
  s_.chunks.resize((kAhead + 1) * n_features);
  const auto chunks_of = [&](std::size_t p) { return &s_.chunks[p % (kAhead + 1) * n_features]; };
  for (std::size_t p = 0; p < n + 2 * kAhead + 1; ++p) {
    if (p < n) prefetch_buckets(p);
    if (p >= kAhead && p - kAhead < n) prefetch_chunks(p - kAhead, chunks_of(p - kAhead));
    if (p >= 2 * kAhead && p - 2 * kAhead < n) find_rows(p - 2 * kAhead, chunks_of(p - 2 * kAhead));
    if (p < 2 * kAhead + 1) continue;
    score(level, p - 2 * kAhead - 1);
    const float worst = worst_kept(level);
    while (n > 0 && s_.parents[n - 1].cost > worst) --n;  // parents are sorted by cost
  }
}

// An upper bound on the cost of a child that is kept; valid because costs only grow from level to level.
float BeamSearch::worst_kept(std::size_t level) {
  const bool is_last = level + 1 == tree_.n_levels();
  if (is_last && s_.keys.size() >= kManyTimes * rule_.k) return cost_of(cut_smallest(s_.keys, rule_.k, s_.spare));
  if (!is_last && rule_.beam <= kNarrowBeam && s_.keys.size() <= kFewKeys && keep(level))
    return cost_of(s_.keys.back());
  return std::numeric_limits<float>::infinity();
}

void BeamSearch::prefetch_buckets(std::size_t p) const {
  const BlockView block = view(p);
  for (const auto& feature : s_.features) prefetch_far(block.bucket_address(feature.hash));
  for (std::size_t at = 0; at < block.buckets_at; at += kBlockAlign) prefetch_far(block.begin + at);
}

void BeamSearch::prefetch_chunks(std::size_t p, std::uint32_t* chunks) const {
  const BlockView block = view(p);
  for (std::size_t f = 0; f < s_.features.size(); ++f) {
    chunks[f] = block.chunk_at(s_.features[f].hash);
    prefetch_far(block.begin + chunks[f]);
    prefetch_far(block.begin + chunks[f] + 64);
  }
}

void BeamSearch::find_rows(std::size_t p, const std::uint32_t* chunks) {
  s_.finder.find(view(p), tree_.precision, {s_.features, chunks}, s_.rows[p % 2]);
}

void BeamSearch::score(std::size_t level, std::size_t p) {
  const BlockView block = view(p);
  alignas(64) float values[kMaxSiblings];
  compute_margins(block, tree_.precision, s_.rows[p % 2], values);
  to_costs(values, block.n_children, s_.parents[p].cost, rule_.scoring.hinge_power);
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

// Keeps the best of the level in s_.keys, best first; returns whether there are as many as wanted.
bool BeamSearch::keep(std::size_t level) {
  const bool is_last = level + 1 == tree_.n_levels();
  if (!is_last && rule_.allowed != nullptr) return keep_allowed(level);
  const std::size_t wanted = is_last ? rule_.k : rule_.beam;
  keep_smallest(s_.keys, wanted, s_.spare);
  return s_.keys.size() >= wanted;
}

bool BeamSearch::keep_allowed(std::size_t level) {
  keep_smallest(s_.keys, s_.keys.size(), s_.spare);
  const std::size_t total = rule_.allowed->total(), k = filtered_k(rule_);
  const std::size_t wanted = total / kFew <= k ? total : kSpare * k;
  std::size_t n = 0;
  std::uint64_t below = 0;
  const auto is_full = [&] { return n >= rule_.beam && below >= wanted; };
  while (n < s_.keys.size() && !is_full()) below += rule_.allowed->below(level, node_of(s_.keys[n++]));
  s_.keys.resize(n);
  return is_full();
}

void BeamSearch::report() {
  s_.found.clear();
  for (const std::uint64_t key : s_.beam) {
    const float cost = cost_of(key);
    const float score = rule_.scoring.is_log ? -cost : std::exp(-cost);
    if (!(score >= rule_.scoring.min_score)) break;  // also NaN; the rest is no better
    s_.found.push_back({node_of(key), score});
  }
}

}  // namespace matchset
