#include "postings.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "threads.hpp"

namespace matchset {
namespace {

constexpr std::size_t kChunk = 32;   // queries that share one array of scores
constexpr std::size_t kBlock = 256;  // documents that are skipped together

struct ScoredDocument {
  float score;
  std::int32_t document;

  // Better first. Scores are above zero, hence no NaN: a strict order.
  friend bool operator<(const ScoredDocument& a, const ScoredDocument& b) {
    return a.score != b.score ? a.score > b.score : a.document < b.document;
  }
};

// Scores of all documents, zero between queries.
class Scores {
 public:
  explicit Scores(std::size_t n) : scores_(n), is_touched_((n + kBlock - 1) / kBlock) {}

  void add(std::span<const std::int32_t> documents, std::span<const float> weights, float scale) {
    for (std::size_t i = 0; i < documents.size(); ++i) {
      const auto document = static_cast<std::size_t>(documents[i]);  // a negative one becomes huge
      if (document >= scores_.size())
        throw std::invalid_argument("documents must be below " + std::to_string(scores_.size()) + "; got " +
                                    std::to_string(documents[i]));
      scores_[document] += scale * weights[i];
      is_touched_[document / kBlock] = 1;
    }
  }

  // The k best, best first; all scores are zero afterwards.
  std::vector<ScoredDocument> take_best(std::span<const std::uint8_t> allowed, std::size_t k) {
    std::vector<ScoredDocument> best;  // a heap with its worst on top once it is full
    for (std::size_t block = 0; block < is_touched_.size(); ++block) {
      if (!is_touched_[block]) continue;
      is_touched_[block] = 0;
      const std::size_t begin = block * kBlock, end = std::min(begin + kBlock, scores_.size());
      for (std::size_t document = begin; document < end; ++document)
        if (allowed.empty() || allowed[document])
          keep({scores_[document], static_cast<std::int32_t>(document)}, k, best);
      std::fill(scores_.begin() + static_cast<std::ptrdiff_t>(begin),
                scores_.begin() + static_cast<std::ptrdiff_t>(end), 0.0F);
    }
    std::sort(best.begin(), best.end());
    return best;
  }

 private:
  static void keep(const ScoredDocument& candidate, std::size_t k, std::vector<ScoredDocument>& best) {
    // Documents come in ascending order, so one that ties with the worst is no better.
    const float least = best.size() < k ? 0.0F : best.front().score;
    if (!(candidate.score > least)) return;
    if (best.size() == k) {
      std::pop_heap(best.begin(), best.end());
      best.back() = candidate;
      std::push_heap(best.begin(), best.end());
    } else {
      best.push_back(candidate);
      if (best.size() == k) std::make_heap(best.begin(), best.end());
    }
  }

  std::vector<float> scores_;
  std::vector<std::uint8_t> is_touched_;  // whether a block may hold a score
};

}  // namespace

Ranked rank_documents(const CsrView& index, const CsrView& X, std::span<const std::uint8_t> allowed, std::size_t k,
                      unsigned n_threads) {
  if (k == 0) throw std::invalid_argument("k must be at least 1; got 0");
  if (X.n_columns != index.n_rows())
    throw std::invalid_argument("X must have one column per row of the index, " + std::to_string(index.n_rows()) +
                                "; got " + std::to_string(X.n_columns));
  const std::size_t n = X.n_rows(), n_chunks = (n + kChunk - 1) / kChunk;
  std::vector<std::vector<ScoredDocument>> best(n);
  parallel_for(n_chunks, n_threads, [&](std::size_t chunk) {
    Scores scores(index.n_columns);
    for (std::size_t i = chunk * kChunk; i < std::min(n, (chunk + 1) * kChunk); ++i) {
      const SparseRow x = X[i];
      for (std::size_t f = 0; f < x.size(); ++f) {
        const auto feature = static_cast<std::size_t>(x.index[f]);
        const auto documents = index.lists[feature];
        scores.add(documents, index.values.subspan(index.lists.begin_of(feature), documents.size()), x.value[f]);
      }
      best[i] = scores.take_best(allowed, k);
    }
  });
  Ranked ranked{{0}, {}, {}};
  for (const auto& candidates : best) {
    for (const ScoredDocument& candidate : candidates) {
      ranked.documents.push_back(candidate.document);
      ranked.scores.push_back(candidate.score);
    }
    ranked.offsets.push_back(static_cast<std::int64_t>(ranked.documents.size()));
  }
  return ranked;
}

}  // namespace matchset
