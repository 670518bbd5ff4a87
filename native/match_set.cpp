#include "match_set.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "newton.hpp"
#include "select.hpp"
#include "simd.hpp"

namespace matchset {
namespace {

constexpr double kMostOdds = 30;
constexpr float kDecisive = 100;                          // more than all other features together can add
constexpr std::size_t kMostBound = std::size_t{1} << 31;  // no array here has more entries that matter

MATCHSET_INLINE Floats<4> load_four(const float* at) {
  Floats<4> four;
  std::memcpy(&four, at, sizeof four);
  return four;
}

// Candidates by their linear score, or by words where those decide. The best title with all words comes before products
// that have none and that no customer chose for a query with one.
void rank(const Reranker& reranker, float cold_shift, MatchSetScratch& s) {
  constexpr std::size_t kWhole = kNFeatures / 4 * 4;
  constexpr float kFarthest = std::numeric_limits<float>::max();
  const auto entries = s.candidates.entries();
  const auto has_all = [&](std::size_t i) { return s.features[i][kAllWords] > 0 && s.features[i][kWordsDecide] == 0; };
  float best = -kFarthest, strange = -kFarthest;
  s.ranked.resize(entries.size());
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const Features& f = s.features[i];
    const bool is_warm = f[kPopularity] > 0;
    const Features& weights = reranker.weights[s.situation][is_warm ? 1 : 0];
    Floats<4> sums{};  // always added in this order
    for (std::size_t j = 0; j < kWhole; j += 4) sums += load_four(&weights[j]) * load_four(&f[j]);
    for (std::size_t j = kWhole; j < kNFeatures; ++j) sums[j - kWhole] += weights[j] * f[j];
    const float sum = (sums[0] + sums[1]) + (sums[2] + sums[3]) + (is_warm ? 0 : cold_shift);
    entries[i].value.linear = std::isfinite(sum) ? sum : 0.0F;
    if (has_all(i)) best = std::max(best, entries[i].value.linear);
    if (f[kWordsDecide] < 0) strange = std::max(strange, entries[i].value.linear);
  }
  for (std::size_t i = 0; i < entries.size(); ++i) {
    float& linear = entries[i].value.linear;
    if (has_all(i) && linear == best && linear <= strange) linear = std::nextafter(strange, kFarthest);
    s.ranked[i] = to_key(linear + kDecisive * std::max(s.features[i][kWordsDecide], 0.0F), entries[i].document);
  }
}

// Appends those that are not in the answer yet. Scores fall with every step of the linear score, however close the
// chances are: equal ones are left to products that really are equal, in the order of their labels.
void append(const Calibration& calibration, std::size_t k, MatchSetScratch& s) {
  float last = std::numeric_limits<float>::infinity(), last_linear = 0;
  bool has_last = false;
  if (!s.found.empty()) last = s.found.back().score;
  for (const std::uint64_t ranked : s.ranked) {
    if (s.found.size() >= k) return;
    const std::uint32_t label = document_of(ranked);
    const float linear = score_of(ranked);
    if (s.given.get(label) != nullptr) continue;
    if (!has_last || linear != last_linear)
      last = std::min(calibration.chance(s.candidates.get(label)->linear), std::nextafter(last, -1.0F));
    has_last = true;
    last_linear = linear;
    s.found.push_back({label, last});
  }
}

std::size_t widened(std::size_t bound) { return std::min(4 * bound, kMostBound); }

}  // namespace

SearchBounds SearchBounds::wider() const {
  return {widened(tree_beam),
          widened(tree_products),
          widened(groups),
          widened(lists),
          widened(list_products),
          widened(lexical_postings),
          widened(lexical_products),
          widened(neighbor_postings),
          widened(neighbors),
          widened(neighbor_products),
          cold_share,
          cold_shift};
}

bool MatchSetView::is_covered_by(const SearchBounds& bounds) const {
  if (tree && (bounds.tree_beam < tree->sizes.back() || bounds.tree_products < tree->sizes.back())) return false;
  if (towers && (bounds.groups < towers->lists.groups.size() || bounds.lists < towers->lists.clusters.size() ||
                 bounds.list_products < towers->lists.products.size()))
    return false;
  if (added && ((added->lists && bounds.list_products < towers->lists.products.size() + added->size) ||
                (lexical && bounds.lexical_postings < added->words.titles_of.lists.ids.size())))
    return false;
  if (lexical &&
      (bounds.lexical_postings < lexical->titles_of.lists.ids.size() || bounds.lexical_products < n_products()))
    return false;
  return !past || (bounds.neighbor_postings >= past->queries_of.lists.ids.size() && bounds.neighbors >= past->size() &&
                   bounds.neighbor_products >= n_products());
}

float Calibration::chance(float score) const {
  if (knots.empty() || knots.size() != log_odds.size()) throw std::invalid_argument("there must be knots");
  double odds = static_cast<double>(log_odds[0]) + (static_cast<double>(score) - static_cast<double>(knots[0]));
  if (knots.size() > 1) {
    // Beyond the ends the nearest line goes on, so that no two scores become one.
    const auto above = std::upper_bound(knots.begin(), knots.end(), score) - knots.begin();
    const auto last = static_cast<std::ptrdiff_t>(knots.size()) - 1;
    const auto i = static_cast<std::size_t>(std::clamp(above, std::ptrdiff_t{1}, last));
    const double left = static_cast<double>(knots[i - 1]), width = static_cast<double>(knots[i]) - left;
    const double low = static_cast<double>(log_odds[i - 1]), rise = static_cast<double>(log_odds[i]) - low;
    odds = low + (static_cast<double>(score) - left) / (width > 0 ? width : 1) * rise;
  }
  odds = odds > -kMostOdds ? std::min(odds, kMostOdds) : -kMostOdds;  // also NaN
  return static_cast<float>(1 / (1 + exp_fixed(-odds)));
}

void search_match_set(const MatchSetView& view, std::size_t k, const SearchBounds& bounds,
                      const AllowedProducts& allowed, MatchSetScratch& s) {
  s.found.clear();
  s.given.clear();
  if (s.query.ids.empty() && !view.added) return;
  const std::size_t most = std::min(k, allowed.is_allowed.empty() ? view.n_products() : allowed.total);
  SearchBounds tier = bounds;
  while (s.found.size() < most) {
    describe_candidates(view, tier, allowed, s);
    rank(view.reranker, bounds.cold_shift, s);
    keep_smallest(s.ranked, most, s.spare);  // at most found.size() of them are not new
    const std::size_t n_before = s.found.size();
    append(view.reranker.calibrations[s.situation], most, s);
    // With a filter, what is allowed may lie far off; without one, nothing new means that there is no more.
    const bool is_filtered = !allowed.is_allowed.empty() && allowed.is_asked;
    if (view.is_covered_by(tier) || (!is_filtered && s.found.size() == n_before)) return;
    for (std::size_t i = n_before; i < s.found.size(); ++i) s.given[s.found[i].label] = 1;
    tier = tier.wider();
  }
}

}  // namespace matchset
