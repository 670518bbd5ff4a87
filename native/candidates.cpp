#include "match_set.hpp"

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <string>
#include <utility>

#include "hash.hpp"
#include "newton.hpp"
#include "select.hpp"

namespace matchset {
namespace {

constexpr float kLeastTreeLog = -14;  // lower logarithms of tree scores say nothing more
constexpr float kLeastVoteShare = 1e-4F;
constexpr float kVoteLogShift = 9.21034F;  // minus the logarithm of it
constexpr float kCosineSteps = 128;        // from 1 down to 0, and as many to -1
constexpr float kManyCold = 0.2F;          // share of cold answers from which on they have places of their own

// Proposes candidates and describes them.
class CandidateSearch {
 public:
  CandidateSearch(const MatchSetView& view, const SearchBounds& bounds, const AllowedProducts& allowed,
                  MatchSetScratch& scratch)
      : v_(view), bounds_(bounds), allowed_(allowed), s_(scratch) {}

  void run() {
    s_.candidates.clear();
    s_.features.clear();
    s_.sums.clear();
    s_.words.clear();
    s_.said.clear();
    s_.situation = kNewQuery;
    if (s_.query.ids.empty() && !v_.added) return;
    // Memory that one source asks for arrives while another works.
    list_terms();
    const bool has_tree = v_.tree != nullptr && !s_.query.ids.empty() && was_asked();
    if (has_tree) search_tree();
    find_postings();
    if (has_tree) propose_by_tree();
    if (v_.towers) propose_by_lists();
    prefetch_vectors();
    if (v_.past) find_neighbors(*v_.past, rule_of_neighbors(), s_.neighbors, s_.sums);
    prefetch_words();
    if (v_.lexical) read_words();
    if (v_.past) prefetch_products(*v_.past, s_.neighbors);
    if (v_.lexical) propose_by_words();
    if (v_.past) propose_by_neighbors();
    if (s_.situation != kKnownQuery && std::ranges::any_of(s_.words, &QueryWord::is_new)) s_.situation = kNewWord;
    describe_all();
  }

 private:
  bool may_give(std::size_t label) const { return allowed_.is_allowed.empty() || allowed_.is_allowed[label] != 0; }

  std::size_t checked(std::int32_t label) const {
    const auto checked = static_cast<std::size_t>(label);  // a negative one is huge
    if (checked >= v_.n_products())
      throw std::invalid_argument("products must be below " + std::to_string(v_.n_products()) + "; got " +
                                  std::to_string(label));
    return checked;
  }

  MatchCandidate& touch(std::size_t label, Source source) {
    MatchCandidate& candidate = s_.candidates[static_cast<std::uint32_t>(label)];
    if (candidate.sources == 0) prefetch_product(label, source);
    candidate.sources = static_cast<std::uint8_t>(candidate.sources | source);
    return candidate;
  }

  void search_tree() {
    const SearchRule rule{bounds_.tree_products, bounds_.tree_beam, {3, true, kLeastTreeLog}, allowed_.tree};
    search_one(*v_.tree, s_.query.ids, s_.query.weights, rule, s_.tree);
    for (const auto& leaf : s_.tree.found) prefetch_far(&v_.tree_labels[leaf.node]);
  }

  // Products of the tree, then those that take their places, which may be as many again.
  void propose_by_tree() {
    for (const auto& leaf : s_.tree.found) {
      const std::size_t label = checked(v_.tree_labels[leaf.node]);
      if (!v_.heirs.empty()) prefetch_far(&v_.heir_begins[label]);
      if (may_give(label)) touch(label, kTree).tree_log = leaf.score;
    }
    if (v_.heirs.empty()) return;
    std::size_t n_left = bounds_.tree_products;
    for (const auto& leaf : s_.tree.found) {
      const auto label = static_cast<std::size_t>(v_.tree_labels[leaf.node]);
      for (std::size_t i = v_.heir_begins[label]; i < v_.heir_begins[label + 1] && n_left > 0; ++i)
        if (const std::uint32_t heir = v_.heirs[i]; may_give(heir)) inherit(heir, leaf.score), --n_left;
    }
  }

  void inherit(std::uint32_t heir, float score) {
    const MatchCandidate* known = s_.candidates.get(heir);
    const bool has_place = known != nullptr && (known->sources & kTree);
    MatchCandidate& candidate = touch(heir, kTree);
    candidate.tree_log = has_place ? std::max(candidate.tree_log, score) : score;
  }

  void propose_by_lists() {
    const TowersView& towers = *v_.towers;
    if (s_.lists)
      s_.lists->reset(towers.lists);
    else
      s_.lists.emplace(towers.lists);
    s_.vector.resize(towers.table.dimensions);
    const std::int64_t offsets[2] = {0, static_cast<std::int64_t>(s_.query.ids.size())};
    const std::span ids(reinterpret_cast<const std::int32_t*>(s_.query.ids.data()), s_.query.ids.size());
    encode_texts({offsets, ids}, towers.row_of, towers.table, s_.vector, 1);
    s_.nearest.clear();
    keep_near(s_.lists->find(s_.vector, {bounds_.groups, bounds_.lists}));
    if (v_.added && v_.added->lists) keep_near(s_.lists->find_more(*v_.added->lists));
    if (s_.nearest.size() > bounds_.list_products) {
      s_.cold.clear();
      if (keeps_cold())
        for (const std::uint64_t near : s_.nearest)
          if (is_cold(document_of(near))) s_.cold.push_back(near);
      s_.ranked.assign(s_.nearest.begin(), s_.nearest.end());
      const std::uint64_t last = cut_smallest(s_.ranked, bounds_.list_products, s_.spare);
      keep_up_to(s_.nearest, last, s_.spare);
      keep_smallest(s_.cold, cold_places(bounds_.list_products), s_.spare);
      std::ranges::copy_if(s_.cold, std::back_inserter(s_.nearest), [&](std::uint64_t key) { return key > last; });
    }
    for (const std::uint64_t near : s_.nearest) {  // list by list, as they lie in memory
      MatchCandidate& candidate = touch(document_of(near), kLists);
      candidate.cosine = score_of(near);
      candidate.has_cosine = true;
    }
  }

  // Where many answers are assumed to be products without a past query, sources keep places for them.
  bool keeps_cold() const { return bounds_.cold_share >= kManyCold; }
  std::size_t cold_places(std::size_t n) const {
    return std::min(n, static_cast<std::size_t>(bounds_.cold_share * static_cast<float>(n)));
  }
  bool is_cold(std::uint32_t label) const { return is_added(label) || !(v_.popularity[label] > 0); }

  void keep_near(std::span<const Scored> found) {
    for (const auto& [label, cosine] : found)
      if (const std::size_t product = checked(label); may_give(product))
        s_.nearest.push_back(to_key(cosine, static_cast<std::uint32_t>(product)));
  }

  void list_terms() {
    s_.terms.clear();
    s_.past_terms.clear();
    for (std::size_t i = 0; i < s_.query.ids.size(); ++i) {
      const std::uint32_t id = s_.query.ids[i];
      if (v_.lexical && id >= v_.first_word && id - v_.first_word < v_.lexical->titles_of.n_terms())
        s_.terms.push_back({id - v_.first_word, 1.0F});
      if (v_.past) s_.past_terms.push_back({id, s_.query.weights[i]});
    }
    if (v_.lexical) prefetch_offsets(v_.lexical->titles_of, s_.terms);
    if (v_.past) prefetch_offsets(v_.past->queries_of, s_.past_terms);
  }

  bool is_new(std::uint32_t id) const {
    return v_.past && (id >= v_.past->queries_of.n_terms() || v_.past->queries_of.lists[id].empty());
  }

  // A tree that has learned from queries alone knows nothing of n-grams that no query had: it would answer by its
  // constant, which is popularity.
  bool was_asked() const {
    return !v_.towers || std::ranges::any_of(s_.query.ids, [&](std::uint32_t id) { return !is_new(id); });
  }

  // The words of the query that titles have, with their places in `terms` and `added_terms`.
  void list_words() {
    s_.has_new_code = false;
    for (const auto& probe : s_.query.probes) {
      s_.has_new_code |= probe.is_code && probe.id != ~0U && is_new(probe.id);
      const auto place = [&](std::span<const WeightedTerm> terms, std::uint64_t term) {
        const auto at = static_cast<std::size_t>(std::ranges::find(terms, term, &WeightedTerm::term) - terms.begin());
        return at < terms.size() ? std::min(at, QueryWord::kNone) : QueryWord::kNone;
      };
      QueryWord word{.key = probe.key, .is_new = is_new(probe.id)};
      std::size_t n_titles = 0;
      if (probe.id >= v_.first_word && probe.id - v_.first_word < v_.lexical->titles_of.n_terms()) {
        word.trained = place(s_.terms, probe.id - v_.first_word);
        n_titles += v_.lexical->titles_of.lists[probe.id - v_.first_word].size();
      }
      if (v_.added && probe.kind == v_.added->word_kind) {
        const auto found = std::ranges::lower_bound(v_.added->word_keys, probe.key);
        if (found != v_.added->word_keys.end() && *found == probe.key) {
          const auto term = static_cast<std::size_t>(found - v_.added->word_keys.begin());
          word.added = place(s_.added_terms, term);
          n_titles += v_.added->words.titles_of.lists[term].size();
        }
      }
      if (n_titles == 0 || std::ranges::find(s_.words, word.key, &QueryWord::key) != s_.words.end()) continue;
      const auto n = static_cast<double>(std::max(n_titles, v_.n_products())), df = static_cast<double>(n_titles);
      word.rarity = static_cast<float>(log_fixed(1 + (n - df + 0.5) / (df + 0.5)));
      s_.words.push_back(word);
    }
  }

  void find_postings() {
    if (v_.lexical)
      find_lists(v_.lexical->titles_of, s_.terms, bounds_.lexical_postings, allowed_.is_allowed, s_.postings);
    if (v_.past) find_lists(v_.past->queries_of, s_.past_terms, bounds_.neighbor_postings, {}, s_.neighbors.lists);
  }

  void read_words() {
    s_.query_words.assign(s_.terms);
    const std::size_t n_wanted = keeps_cold() ? 0 : bounds_.lexical_products;
    read_lists(v_.lexical->titles_of, bounds_.lexical_postings, n_wanted, allowed_.is_allowed, s_.postings, s_.sums);
    s_.added_words.assign({});
    s_.added_terms.clear();
    if (v_.added) read_added_words(*v_.added);
    list_words();
  }

  void propose_by_words() {
    s_.cold.clear();
    if (keeps_cold())
      s_.sums.for_each([&](std::uint32_t label, float sum) {
        if (is_cold(label)) s_.cold.push_back(to_key(sum, label));
      });
    for (const std::uint64_t found : take_best(s_.sums, bounds_.lexical_products, s_.postings))
      touch(document_of(found), kLexical);
    keep_smallest(s_.cold, cold_places(bounds_.lexical_products), s_.spare);
    for (const std::uint64_t found : s_.cold) touch(document_of(found), kLexical);
  }

  // At most as many entries again as of the titles of the training; few, as long as few products were added.
  void read_added_words(const AddedProducts& added) {
    for (const auto& probe : s_.query.probes) {
      if (probe.kind != added.word_kind) continue;
      const auto found = std::lower_bound(added.word_keys.begin(), added.word_keys.end(), probe.key);
      if (found != added.word_keys.end() && *found == probe.key)
        s_.added_terms.push_back({static_cast<std::uint32_t>(found - added.word_keys.begin()), 1.0F});
    }
    std::ranges::sort(s_.added_terms, {}, &WeightedTerm::term);
    const auto repeated = std::ranges::unique(s_.added_terms, {}, &WeightedTerm::term);
    s_.added_terms.erase(repeated.begin(), repeated.end());
    s_.added_words.assign(s_.added_terms);
    find_lists(added.words.titles_of, s_.added_terms, bounds_.lexical_postings, allowed_.is_allowed, s_.postings);
    read_lists(added.words.titles_of, bounds_.lexical_postings, bounds_.lexical_products, allowed_.is_allowed,
               s_.postings, s_.sums);
  }

  NeighborsRule rule_of_neighbors() const { return {bounds_.neighbor_postings, bounds_.neighbors}; }

  void propose_by_neighbors() {
    const PastQueries& past = *v_.past;
    if (v_.lexical) find_said(past);
    collect_votes(past, rule_of_neighbors(), allowed_.is_allowed, s_.neighbors, s_.sums);
    for (const std::uint64_t found : find_best(s_.sums, bounds_.neighbor_products, s_.neighbors.lists))
      touch(document_of(found), kNeighbors);
    if (s_.query.ids.empty()) return;
    const std::int64_t same = past.find(hash_bytes(s_.query.padded.text()));
    if (same < 0) return;
    s_.situation = kKnownQuery;
    const auto products = past.products_of[static_cast<std::size_t>(same)];
    const std::size_t first = past.products_of.begin_of(static_cast<std::size_t>(same));
    for (std::size_t i = 0; i < products.size(); ++i)
      if (const std::size_t label = checked(products[i]); may_give(label))
        touch(label, kNeighbors).same_query = past.counts[first + i];
  }

  // What customers said of the words, not of n-grams of characters that other words have too.
  void find_said(const PastQueries& past) {
    std::size_t budget = bounds_.neighbor_postings;
    s_.sums.reserve(s_.neighbors.nearest.size());
    for (const std::uint64_t near : s_.neighbors.nearest) s_.sums.add(static_cast<std::int32_t>(document_of(near)), 1);
    for (const WeightedTerm& term : s_.past_terms) {
      if (term.term < v_.first_word || term.term - v_.first_word >= v_.lexical->titles_of.n_terms()) continue;
      if (term.term >= past.queries_of.n_terms()) continue;
      const auto queries = past.queries_of.lists[term.term];
      const auto read = queries.first(std::min(queries.size(), budget));
      budget -= read.size();
      s_.sums.add_known(read, [](std::size_t) { return 1.0F; });
    }
    for (const std::uint64_t near : s_.neighbors.nearest)
      if (s_.sums[document_of(near)] > 1)
        for (const std::int32_t product : past.products_of[document_of(near)])
          s_.said.push_back(static_cast<std::uint32_t>(product));
    s_.sums.clear();
  }

  // What is known of a product lies anywhere in memory. It is asked for in three steps: first where it lies, as soon as
  // a source proposes the product; then, for all candidates, vectors and where words begin; then the words.
  void prefetch_product(std::size_t label, Source source) const {
    if (is_added(label)) return;
    prefetch_far(&v_.popularity[label]);
    prefetch_far(&v_.recent[label]);
    if (v_.lexical) v_.lexical->prefetch_row(label);
    if (v_.towers && source != kLists) prefetch_far(&v_.towers->position_of[label]);
  }

  // For the candidates that came since it was called last.
  void prefetch_vectors() {
    if (n_asked_ == 0) s_.positions.clear(), s_.placed.clear();
    const auto entries = s_.candidates.entries();
    for (std::size_t i = std::exchange(n_asked_, entries.size()); i < entries.size(); ++i) {
      const std::uint32_t label = entries[i].document;
      if (is_added(label)) {  // few: there is no need to ask for them ahead
        if (v_.towers && !entries[i].value.has_cosine)
          entries[i].value.cosine = find_added_cosine(label - v_.n_trained());
        continue;
      }
      if (v_.lexical) v_.lexical->prefetch_offset(label);
      if (!v_.towers || entries[i].value.has_cosine) continue;
      const auto position = static_cast<std::size_t>(v_.towers->position_of[label]);  // a negative one is huge
      if (position >= v_.towers->lists.products.size()) continue;
      v_.towers->lists.products.prefetch(position);
      s_.positions.push_back(static_cast<std::uint32_t>(position));
      s_.placed.push_back(static_cast<std::uint32_t>(i));
    }
  }

  void prefetch_words() {
    if (!v_.lexical) return;
    const auto entries = s_.candidates.entries().first(n_asked_);
    for (std::size_t i = std::exchange(n_words_asked_, n_asked_); i < entries.size(); ++i)
      if (!is_added(entries[i].document)) v_.lexical->prefetch_words(entries[i].document);
  }

  void find_cosines() {
    if (s_.positions.empty()) return;
    s_.cosines.resize(s_.positions.size());
    s_.lists->score_products(v_.towers->lists.products, s_.positions, s_.cosines.data());
    const auto entries = s_.candidates.entries();
    for (std::size_t i = 0; i < s_.placed.size(); ++i) entries[s_.placed[i]].value.cosine = s_.cosines[i];
  }

  void describe_all() {
    prefetch_vectors();
    s_.features.assign(s_.candidates.entries().size(), Features{});
    if (v_.past) describe_by_votes();
    prefetch_words();
    describe_by_tree();
    find_cosines();
    if (v_.towers) describe_by_cosines();
    if (v_.lexical && !(s_.query_words.empty() && s_.added_words.empty())) describe_by_words();
    for (std::size_t i = 0; i < s_.features.size(); ++i) {
      const std::uint32_t label = s_.candidates.entries()[i].document;
      s_.features[i][kConstant] = 1;
      if (is_added(label)) continue;
      s_.features[i][kPopularity] = v_.popularity[label];
      s_.features[i][kRecent] = v_.recent[label];
    }
  }

  void describe_by_tree() {
    if (!v_.tree) return;
    const auto entries = s_.candidates.entries();
    s_.numbers.clear();
    s_.known.clear();
    for (std::size_t i = 0; i < entries.size(); ++i) {
      s_.features[i][kTreeMissed] = 1;
      if (!(entries[i].value.sources & kTree)) continue;
      s_.numbers.push_back(static_cast<double>(entries[i].value.tree_log));
      s_.known.push_back(static_cast<std::uint32_t>(i));
    }
    exp_fixed(s_.numbers);
    for (std::size_t i = 0; i < s_.known.size(); ++i) {
      Features& f = s_.features[s_.known[i]];
      f[kTreeScore] = static_cast<float>(s_.numbers[i]);
      f[kTreeLog] = entries[s_.known[i]].value.tree_log - kLeastTreeLog;
      f[kTreeMissed] = 0;
    }
  }

  // What a cosine is worth depends on how many titles are as near. The rank is counted by steps: no sorting, and what
  // is nearly equal has one rank.
  void describe_by_cosines() {
    const auto entries = s_.candidates.entries();
    s_.numbers.assign(static_cast<std::size_t>(2 * kCosineSteps) + 1, 0.0);
    for (const auto& entry : entries) s_.numbers[step_of(entry.value.cosine)] += 1;
    double n_greater = 0;
    for (double& number : s_.numbers) number = 1 + std::exchange(n_greater, n_greater + number);
    log_fixed(s_.numbers);
    for (std::size_t i = 0; i < entries.size(); ++i) {
      s_.features[i][kCosine] = entries[i].value.cosine;
      s_.features[i][kCosineRank] = static_cast<float>(s_.numbers[step_of(entries[i].value.cosine)]);
    }
  }

  static std::size_t step_of(float cosine) {
    const float steps = (1 - cosine) * kCosineSteps;
    return steps > 0 ? static_cast<std::size_t>(std::min(steps, 2 * kCosineSteps)) : 0;  // 0 also for NaN
  }

  void describe_by_votes() {
    const auto entries = s_.candidates.entries();
    s_.numbers.clear();
    s_.known.clear();
    for (std::size_t i = 0; i < entries.size(); ++i) {
      s_.features[i][kSameQuery] = entries[i].value.same_query;
      const float votes = s_.sums[entries[i].document];
      if (!(votes > 0)) continue;
      s_.features[i][kVoteShare] = votes / s_.neighbors.total;
      s_.numbers.push_back(static_cast<double>(std::max(s_.features[i][kVoteShare], kLeastVoteShare)));
      s_.known.push_back(static_cast<std::uint32_t>(i));
    }
    s_.sums.clear();  // as long as it is in the cache
    log_fixed(s_.numbers);
    for (std::size_t i = 0; i < s_.known.size(); ++i)
      s_.features[s_.known[i]][kVoteLog] = std::max(0.0F, static_cast<float>(s_.numbers[i]) + kVoteLogShift);
  }

  void describe_by_words() {
    const auto entries = s_.candidates.entries();
    float best = 0, total = 0, rarest = 0;
    for (const QueryWord& word : s_.words) total += word.rarity, rarest = std::max(rarest, word.rarity);
    for (std::size_t i = 0; i < entries.size(); ++i) {
      Features& f = s_.features[i];
      const QueryWords::Found found = find_words(entries[i].document);
      f[kBm25] = found.score;
      f[kBm25Any] = f[kBm25] > 0 ? 1.0F : 0.0F;
      best = std::max(best, f[kBm25]);
      if (!(total > 0)) continue;
      float has = 0, has_new = 0, lacks_new = 0;
      for (const QueryWord& word : s_.words) {
        const std::size_t bit = is_added(entries[i].document) ? word.added : word.trained;
        const bool has_it = bit < QueryWord::kNone && (found.words >> bit & 1);
        has += has_it ? word.rarity : 0;
        if (word.is_new) (has_it ? has_new : lacks_new) += word.rarity;
        if (has_it && word.rarity >= rarest) f[kRarestWord] = 1;
      }
      f[kWordShare] = has / total;
      f[kAllWords] = has >= total ? 1.0F : 0.0F;  // both are sums in the same order
      f[kNewWords] = has_new / total;
      f[kNewWordsNot] = lacks_new / total;
    }
    if (best > 0)
      for (Features& f : s_.features) f[kBm25Share] = f[kBm25] / best;
    decide_by_words();
  }

  // Of a query with a word or a code that is new to training, titles with all of its words come first; titles with more
  // of them, if all are new. Elsewhere, the best title that has all of them comes before products that have none and
  // that no customer chose for a query with one.
  void decide_by_words() {
    if (s_.situation == kNewWord || (s_.has_new_code && s_.situation == kNewQuery)) {
      const bool are_all_new = std::ranges::all_of(s_.words, &QueryWord::is_new);
      for (Features& f : s_.features) f[kWordsDecide] = are_all_new ? f[kWordShare] : f[kAllWords];
    }
    if (std::ranges::none_of(s_.features, [](const Features& f) { return f[kAllWords] > 0; })) return;
    for (const std::uint32_t product : s_.said)
      if (MatchCandidate* candidate = s_.candidates.get(product)) candidate->is_said = true;
    const auto entries = s_.candidates.entries();
    for (std::size_t i = 0; i < entries.size(); ++i) {
      Features& f = s_.features[i];
      if (f[kWordShare] == 0 && f[kSameQuery] == 0 && !entries[i].value.is_said) f[kWordsDecide] = -1;
    }
  }

  bool is_added(std::size_t label) const { return label >= v_.n_trained(); }

  QueryWords::Found find_words(std::uint32_t label) const {
    if (!is_added(label)) return s_.query_words.empty() ? QueryWords::Found{} : s_.query_words.find(*v_.lexical, label);
    return s_.added_words.empty() ? QueryWords::Found{} : s_.added_words.find(v_.added->words, label - v_.n_trained());
  }

  float find_added_cosine(std::size_t row) const {
    const auto position = static_cast<std::size_t>(v_.added->position_of[row]);  // a negative one is huge
    const ByteVectors& products = v_.added->lists->products;
    if (position >= products.size()) return 0;
    const auto index = static_cast<std::uint32_t>(position);
    float cosine;
    s_.lists->score_products(products, {&index, 1}, &cosine);
    return cosine;
  }

  const MatchSetView& v_;
  const SearchBounds& bounds_;
  const AllowedProducts& allowed_;
  MatchSetScratch& s_;
  std::size_t n_asked_ = 0, n_words_asked_ = 0;  // candidates whose vectors, whose words were asked for
};

}  // namespace

void describe_candidates(const MatchSetView& view, const SearchBounds& bounds, const AllowedProducts& allowed,
                         MatchSetScratch& scratch) {
  CandidateSearch(view, bounds, allowed, scratch).run();
}

}  // namespace matchset
