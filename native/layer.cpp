#include "layer.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "rng.hpp"
#include "threads.hpp"

namespace matchset {
namespace {

struct Entry {
  std::uint32_t feature;  // index into NodeProblem::features
  std::uint16_t child;
  float weight;
};

// Children solved together, and the weights that were kept.
struct ChildBatch {
  std::vector<std::uint16_t> children;
  std::vector<Entry> entries;
  std::vector<float> bias;  // (n_lanes,)
  std::size_t n_unfinished = 0;
};

struct Parent {
  NodeProblem problem;
  SolverRule rule;
  std::vector<Positives> labels;  // per child
  std::vector<float> bias;
};

Positives find_positive_rows(const LayerProblem& layer, const NodeProblem& node, std::size_t child) {
  Positives label;
  const auto rows = layer.positives[child];
  auto at = node.rows.begin();
  for (std::size_t p = 0; p < rows.size(); ++p) {
    at = std::lower_bound(at, node.rows.end(), rows[p]);
    if (at == node.rows.end() || *at != rows[p])
      throw std::invalid_argument("positives must ascend and be instances of the parent; got row " +
                                  std::to_string(rows[p]) + " of child " + std::to_string(child));
    label.rows.push_back(static_cast<std::uint32_t>(at++ - node.rows.begin()));
    if (layer.weights.empty()) continue;
    const float weight = layer.weights[layer.positives.begin_of(child) + p];
    if (!(weight > 0) || !std::isfinite(weight))
      throw std::invalid_argument("weights of positives must be positive; got " + std::to_string(weight));
    label.weights.push_back(weight);
  }
  return label;
}

std::size_t count_children(const LayerProblem& layer, std::size_t parent) {
  const std::int64_t begin = layer.first_child[parent], end = layer.first_child[parent + 1];
  if (begin < 0 || end < begin || static_cast<std::size_t>(end) > layer.positives.size() || end - begin > 65536)
    throw std::invalid_argument("a parent must have at most 65536 children, within the layer; got " +
                                std::to_string(begin) + " to " + std::to_string(end));
  return static_cast<std::size_t>(end - begin);
}

Parent prepare(const LayerProblem& layer, std::size_t p, const SolverRule& rule, unsigned n_threads) {
  Parent out;
  const auto rows = layer.instances[p];
  if (std::ranges::adjacent_find(rows, std::greater_equal{}) != rows.end())
    throw std::invalid_argument("instances of a parent must ascend; parent " + std::to_string(layer.first_parent + p));
  out.problem = gather(layer.X, rows, n_threads);
  out.rule = rule;
  out.rule.seed = Draws(rule.seed, layer.first_parent + p).next();
  const std::size_t n_children = count_children(layer, p);
  for (std::size_t c = 0; c < n_children; ++c)
    out.labels.push_back(find_positive_rows(layer, out.problem, static_cast<std::size_t>(layer.first_child[p]) + c));
  out.bias.assign(n_children, kNeverBias);
  return out;
}

// Sorts children by their number of positives, so that the lanes of a batch finish together; children without
// positives are left out. What a lane computes does not depend on its batch: batches are smaller where there is a
// thread for each.
std::vector<ChildBatch> plan_batches(const Parent& node, std::size_t n_threads) {
  std::vector<std::uint16_t> children;
  for (std::size_t c = 0; c < node.labels.size(); ++c)
    if (!node.labels[c].rows.empty()) children.push_back(static_cast<std::uint16_t>(c));
  std::ranges::stable_sort(children, std::greater{}, [&](std::uint16_t c) { return node.labels[c].rows.size(); });
  std::size_t n_lanes = 16;
  for (const std::size_t n : {8U, 4U})
    if (children.size() <= n * n_threads) n_lanes = n;
  std::vector<ChildBatch> batches;
  for (std::span<const std::uint16_t> left = children; !left.empty();) {
    const auto own = left.first(std::min(n_lanes, left.size()));
    batches.push_back({{own.begin(), own.end()}, {}, {}, 0});
    left = left.subspan(own.size());
  }
  return batches;
}

// Keeps the `max_weights` largest entries of each child; ties go to the lower feature.
void keep_largest(std::vector<Entry>& entries, std::span<const std::uint16_t> children, std::size_t max_weights) {
  std::vector<Entry> kept;
  for (const std::uint16_t child : children) {
    const auto first = kept.size();
    std::ranges::copy_if(entries, std::back_inserter(kept), [&](const Entry& entry) { return entry.child == child; });
    const std::span own(kept.begin() + static_cast<std::ptrdiff_t>(first), kept.end());
    if (own.size() <= max_weights) continue;
    std::ranges::nth_element(own, own.begin() + static_cast<std::ptrdiff_t>(max_weights), {},
                             [](const Entry& entry) { return std::pair(-std::abs(entry.weight), entry.feature); });
    kept.resize(first + max_weights);
  }
  entries = std::move(kept);
}

void solve(const Parent& parent, ChildBatch& batch, const PruneRule& prune) {
  std::vector<const Positives*> labels;
  for (const std::uint16_t child : batch.children) labels.push_back(&parent.labels[child]);
  const NodeProblem& problem = parent.problem;
  const BatchSolution solution = solve_batch(problem, labels, parent.rule);
  for (std::uint32_t f = 0; f < problem.features.size(); ++f) {
    const std::uint32_t column = problem.column_of[f];
    const float* lanes = column < problem.n_columns ? &solution.weight[column * solution.n_lanes]
                                                    : &solution.dual[(column - problem.n_columns) * solution.n_lanes];
    for (std::size_t lane = 0; lane < labels.size(); ++lane) {
      const float weight = problem.scale[f] * lanes[lane];
      if (std::abs(weight) > prune.threshold) batch.entries.push_back({f, batch.children[lane], weight});
    }
  }
  if (prune.max_weights < problem.features.size()) keep_largest(batch.entries, batch.children, prune.max_weights);
  batch.bias = solution.bias;
  batch.n_unfinished = solution.n_unfinished;
}

// Joins the batches of one parent, ordered by feature, then child, and appends them.
void write(Parent& parent, std::span<const ChildBatch> batches, LayerWeights& out) {
  std::vector<std::uint32_t> counts(parent.problem.features.size());
  for (const ChildBatch& batch : batches) {
    for (const Entry& entry : batch.entries) ++counts[entry.feature];
    for (std::size_t lane = 0; lane < batch.children.size(); ++lane)
      parent.bias[batch.children[lane]] = batch.bias[lane];
    out.n_unfinished += static_cast<std::int64_t>(batch.n_unfinished);
  }
  std::vector<std::size_t> next(counts.size() + 1);
  std::inclusive_scan(counts.begin(), counts.end(), next.begin() + 1, std::plus{}, std::size_t{0});
  std::vector<Entry> sorted(next.back());
  for (const ChildBatch& batch : batches)
    for (const Entry& entry : batch.entries) sorted[next[entry.feature]++] = entry;
  const std::size_t n_before = out.features.size();
  auto at = sorted.begin();
  for (std::size_t f = 0; f < counts.size(); ++f) {
    if (counts[f] == 0) continue;
    const auto end = at + counts[f];
    std::sort(at, end, [](const Entry& a, const Entry& b) { return a.child < b.child; });
    out.features.push_back(parent.problem.features[f]);
    out.n_entries.push_back(static_cast<std::int32_t>(counts[f]));
    for (; at != end; ++at) {
      out.children.push_back(at->child);
      out.weights.push_back(at->weight);
    }
  }
  out.n_features.push_back(static_cast<std::int64_t>(out.features.size() - n_before));
  out.bias.insert(out.bias.end(), parent.bias.begin(), parent.bias.end());
}

}  // namespace

LayerWeights solve_parents(const LayerProblem& problem, const SolverRule& rule, const PruneRule& prune,
                           unsigned n_threads) {
  if (problem.first_child.empty()) throw std::out_of_range("first_child must have an end");
  LayerWeights out;
  for (std::size_t p = 0; p + 1 < problem.first_child.size(); ++p) {
    Parent parent = prepare(problem, p, rule, n_threads);
    std::vector<ChildBatch> batches = plan_batches(parent, n_threads);
    parallel_for(batches.size(), n_threads, [&](std::size_t b) { solve(parent, batches[b], prune); });
    write(parent, batches, out);
  }
  return out;
}

}  // namespace matchset
