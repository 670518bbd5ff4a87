#include "beam.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "threads.hpp"

namespace matchset {
namespace {

struct Candidate {
  float score;  // natural logarithm
  std::int32_t node;

  // Better first. Scores are never NaN (see below), so this is a strict order.
  friend bool operator<(const Candidate& a, const Candidate& b) {
    return a.score != b.score ? a.score > b.score : a.node < b.node;
  }
};

float log_hinge(float margin) {
  const float miss = std::max(0.0F, 1.0F - margin);
  const float score = -miss * miss * miss;
  return std::isnan(score) ? -std::numeric_limits<float>::infinity() : score;
}

// Adds x.w of every child of `parent` to `margins`, which hold the biases.
void add_margins(const LayerView& layer, std::size_t parent, const SparseRow& x, std::span<float> margins) {
  const auto features = layer.features[parent];
  const std::size_t row_of_first = layer.features.begin_of(parent);
  auto at = features.begin();
  for (std::size_t k = 0; k < x.size(); ++k) {
    at = std::lower_bound(at, features.end(), x.index[k]);
    if (at == features.end()) return;
    if (*at != x.index[k]) continue;
    const std::size_t row = row_of_first + static_cast<std::size_t>(at - features.begin());
    const std::int64_t begin = layer.first_entry[row], end = layer.first_entry[row + 1];
    if (begin < 0 || end < begin || static_cast<std::uint64_t>(end) > layer.children.size())
      throw std::invalid_argument("entry offsets must ascend and end inside the layer");
    for (auto e = static_cast<std::size_t>(begin); e < static_cast<std::size_t>(end); ++e) {
      if (layer.children[e] >= margins.size()) throw std::invalid_argument("children must be within their parent");
      margins[layer.children[e]] += x.value[k] * layer.weights[e];
    }
  }
}

void expand(const LayerView& layer, const Candidate& parent, const SparseRow& x, std::vector<float>& margins,
            std::vector<Candidate>& out) {
  const auto p = static_cast<std::size_t>(parent.node);
  const std::int64_t begin = layer.first_child[p], end = layer.first_child[p + 1];
  if (begin < 0 || end < begin || static_cast<std::uint64_t>(end) > layer.bias.size())
    throw std::invalid_argument("child offsets must ascend and end inside the layer");
  margins.assign(layer.bias.begin() + begin, layer.bias.begin() + end);
  add_margins(layer, p, x, margins);
  for (std::size_t c = 0; c < margins.size(); ++c)
    out.push_back({parent.score + log_hinge(margins[c]), static_cast<std::int32_t>(begin + static_cast<std::int64_t>(c))});
}

std::vector<Candidate> search_one(std::span<const LayerView> layers, const SparseRow& x, std::size_t beam,
                                  std::size_t k) {
  std::vector<Candidate> best;
  if (x.size() == 0) return best;
  best.push_back({0.0F, 0});
  std::vector<Candidate> children;
  std::vector<float> margins;
  for (std::size_t depth = 0; depth < layers.size(); ++depth) {
    children.clear();
    for (const Candidate& parent : best) expand(layers[depth], parent, x, margins, children);
    const std::size_t kept = std::min(children.size(), depth + 1 < layers.size() ? beam : k);
    std::partial_sort(children.begin(), children.begin() + static_cast<std::ptrdiff_t>(kept), children.end());
    children.resize(kept);
    std::swap(best, children);
  }
  return best;
}

void check(std::span<const LayerView> layers) {
  std::size_t n_parents = 1;
  for (const LayerView& layer : layers) {
    if (layer.first_child.size() != n_parents + 1 || layer.features.size() != n_parents)
      throw std::invalid_argument("a layer must have as many parents as the one above has nodes");
    if (layer.first_entry.size() != layer.features.ids.size() + 1 || layer.weights.size() != layer.children.size())
      throw std::invalid_argument("entries of a layer must have one child and one weight each");
    n_parents = layer.bias.size();
  }
}

}  // namespace

Found search(std::span<const LayerView> layers, const CsrView& X, std::size_t beam, std::size_t k, unsigned n_threads) {
  check(layers);
  constexpr std::size_t kChunk = 64;
  const std::size_t n = X.n_rows(), n_chunks = (n + kChunk - 1) / kChunk;
  std::vector<std::vector<Candidate>> best(n);
  parallel_for(n_chunks, n_threads, [&](std::size_t chunk) {
    for (std::size_t i = chunk * kChunk; i < std::min(n, (chunk + 1) * kChunk); ++i)
      best[i] = search_one(layers, X[i], beam, k);
  });
  Found found{{0}, {}, {}};
  for (const auto& candidates : best) {
    for (const Candidate& candidate : candidates) {
      found.nodes.push_back(candidate.node);
      found.scores.push_back(std::exp(candidate.score));
    }
    found.offsets.push_back(static_cast<std::int64_t>(found.nodes.size()));
  }
  return found;
}

}  // namespace matchset
