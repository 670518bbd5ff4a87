// Match set: which products answer a query, when several sources propose them and one score decides?
//
//   query -> tree              what customers did, generalized
//         -> inverted lists    what titles mean
//         -> lexical index     the words themselves
//         -> query neighbors   what customers did, remembered
//         -> every candidate gets what each part knows of it: one linear score, the k best
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "document_table.hpp"
#include "inverted_lists.hpp"
#include "lexical.hpp"
#include "neighbors.hpp"
#include "packed.hpp"
#include "search.hpp"

namespace matchset {

// What is known of a candidate. A product that a bounded search did not reach has a value of its own there.
enum CandidateFeature : std::size_t {
  kConstant,    // 1
  kTreeScore,   // product of the scores on its path; 0 where the beam did not reach it
  kTreeLog,     // its logarithm, from 0 up; 0 where not reached
  kTreeMissed,  // 1 where the beam did not reach it
  kCosine,      // of the query's and the title's vectors
  kCosineRank,  // logarithm of 1 + how many candidates have a clearly greater cosine
  kBm25Share,   // of the best candidate's BM25
  kBm25,
  kBm25Any,     // 1 where the title has a word of the query
  kVoteShare,   // of all votes of the query's neighbors
  kVoteLog,     // logarithm of that share, from 0 up
  kSameQuery,   // logarithm of 1 + how often the very same query led to it
  kPopularity,  // logarithm of 1 + how many queries led to it
  kRecent,      // logarithm of 1 + its events, the older the less
  // Words of the query that some title has, each as much as it is rare.
  kWordShare,    // share of them that this title has
  kAllWords,     // 1 where it has all of them
  kRarestWord,   // 1 where it has the rarest of them
  kNewWords,     // share of them that it has and no past query had
  kNewWordsNot,  // the same of those that it lacks
  kWordsDecide,  // word_share where no past query had any of them; -1: see `decide_by_words`
  kNFeatures
};
inline constexpr std::array<std::string_view, kNFeatures> kFeatureNames{
    "constant",   "tree_score", "tree_log",    "tree_missed", "cosine",        "cosine_rank", "bm25_share",
    "bm25",       "bm25_any",   "vote_share",  "vote_log",    "same_query",    "popularity",  "recent",
    "word_share", "all_words",  "rarest_word", "new_words",   "new_words_not", "words_decide"};
using Features = std::array<float, kNFeatures>;

// What training knows of a query: each has weights and a calibration of its own.
enum Situation : std::size_t { kNewQuery, kKnownQuery, kNewWord, kNSituations };

enum Source : std::uint8_t { kTree = 1, kLists = 2, kLexical = 4, kNeighbors = 8 };

// How much each source reads and proposes.
struct SearchBounds {
  std::size_t tree_beam, tree_products;
  std::size_t groups, lists;  // inverted lists to read, and the groups in which they are looked for
  std::size_t list_products;
  std::size_t lexical_postings, lexical_products;
  std::size_t neighbor_postings, neighbors, neighbor_products;
  float cold_share = 0;  // of the places of lists and words that are kept for products without a past query
  float cold_shift = 0;  // added to the linear score of such products

  // Four times as much of everything.
  SearchBounds wider() const;
};

// How a linear score becomes a chance: straight lines between knots, in log-odds.
struct Calibration {
  std::span<const float> knots, log_odds;  // ascending; at least one

  float chance(float score) const;
};

// Weights of the linear score, and what it means, in each situation.
struct Reranker {
  std::array<std::array<Features, 2>, kNSituations> weights;  // of cold and of warm products
  std::array<Calibration, kNSituations> calibrations;
};

// Embeddings of n-grams, and the products by their vectors.
struct TowersView {
  std::span<const std::int32_t> row_of;  // row of each feature in the table, -1 for none
  ByteVectors table;                     // embeddings
  InvertedLists lists;
  std::span<const std::int32_t> position_of;  // of each product in the lists, -1 for none
};

// Products that came after the training, in the same clusters, under labels that follow those of the training.
//
// Their words are known by their hashes: the vocabulary is older than some of them.
struct AddedProducts {
  std::size_t size = 0;
  std::uint32_t word_kind = 0;                // of n-grams in the vocabulary: single words
  std::span<const std::uint64_t> word_keys;   // of their words, ascending
  LexicalIndex words;                         // a term is an index into word_keys; rows follow the labels
  std::optional<InvertedLists> lists;         // the clusters of the towers, with these products alone
  std::span<const std::int32_t> position_of;  // of each in the lists, -1 for none
};

// The parts; one that is left out is empty. All arrays may be memory-mapped: they are checked when touched.
struct MatchSetView {
  const PackedView* tree = nullptr;
  std::span<const std::int32_t> tree_labels;  // product of each leaf position
  std::optional<TowersView> towers;
  std::optional<LexicalIndex> lexical;
  std::uint32_t first_word = 0;  // feature of the lexical index's first word
  std::optional<PastQueries> past;
  std::span<const float> popularity;  // logarithm of 1 + queries of each product: 0 is cold, (n_trained,)
  std::span<const float> recent;      // logarithm of 1 + recent events of each product, (n_trained,)
  // Products without a past query, by trained ones that are most like them and lend them their place in the tree.
  std::span<const std::uint32_t> heir_begins, heirs;  // (n_trained + 1,), or none
  Reranker reranker{};
  std::optional<AddedProducts> added;

  std::size_t n_trained() const { return popularity.size(); }
  std::size_t n_products() const { return n_trained() + (added ? added->size : 0); }
  // Whether these bounds leave nothing out.
  bool is_covered_by(const SearchBounds& bounds) const;
};

// A word of the query that some title has, as it is numbered in the titles of the training and in added ones.
struct QueryWord {
  static constexpr std::size_t kNone = 64;  // words beyond it do not count
  std::uint64_t key;
  std::size_t trained = kNone, added = kNone;
  float rarity = 0;
  bool is_new = true;  // to past queries
};

struct MatchCandidate {
  float tree_log = 0, cosine = 0, same_query = 0, linear = 0;
  std::uint8_t sources = 0;
  bool has_cosine = false, is_said = false;
};

struct RankedProduct {
  std::uint32_t label;
  float score;
};

// Memory of one search, reused from query to query. It grows with what the bounds allow, never with the catalog.
struct MatchSetScratch {
  QueryFeatures query;
  SearchScratch tree;
  ListsScratch postings;
  Accumulator sums;  // of one source after another, so that they take the same cache: similarities, words, votes
  QueryWords query_words, added_words;
  std::vector<QueryWord> words;
  std::vector<std::uint32_t> said;  // products that past queries with a word of this one led to
  Situation situation = kNewQuery;
  bool has_new_code = false;  // titles have one that no past query had
  NeighborsScratch neighbors;
  std::optional<ListsSearch> lists;
  std::vector<float> vector;
  std::vector<WeightedTerm> terms, added_terms, past_terms;  // of titles, of added titles, of past queries
  DocumentTable<MatchCandidate> candidates;
  std::vector<std::uint32_t> positions, placed;       // candidates whose cosine is missing: in lists, in `candidates`
  std::vector<std::uint32_t> known;                   // candidates that the tree, or a vote, knows: in `candidates`
  std::vector<float> cosines;                         // of `positions`
  std::vector<double> numbers;                        // of each candidate, or of each step of cosines
  std::vector<Features> features;                     // of each candidate, in the order of `candidates`
  std::vector<std::uint64_t> nearest, ranked, spare;  // keys of cosines, of linear scores
  std::vector<std::uint64_t> cold;                    // keys of products without a past query, of one source
  DocumentTable<char> given;                          // products that are in `found`
  std::vector<RankedProduct> found;                   // the answer: chances, best first
};

// A filter in the forms that the sources want.
struct AllowedProducts {
  std::span<const std::uint8_t> is_allowed;  // one byte per product; empty: all
  const Allowed* tree = nullptr;             // the same for the tree; nullptr: all
  std::size_t total = 0;                     // products that are allowed
  bool is_asked = true;                      // by the caller; else it only leaves out what was removed
};

// Candidates of the query in scratch.query, and what is known of each: scratch.candidates and scratch.features.
//
// A query without a known n-gram has those alone that were added and have one of its words.
void describe_candidates(const MatchSetView& view, const SearchBounds& bounds, const AllowedProducts& allowed,
                         MatchSetScratch& scratch);

// The k best products of the query in scratch.query, into scratch.found.
//
// First the candidates within the bounds. Where they are fewer than k, the bounds grow by four, and what they add
// comes after what was found before, with lower scores: a larger k never changes the beginning of an answer.
void search_match_set(const MatchSetView& view, std::size_t k, const SearchBounds& bounds,
                      const AllowedProducts& allowed, MatchSetScratch& scratch);

}  // namespace matchset
