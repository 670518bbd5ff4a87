// Batch: how are many queries searched together, so that they share what is in the caches?
#pragma once

#include <cstdint>
#include <vector>

#include "csr.hpp"
#include "search.hpp"
#include "strings.hpp"
#include "vectorize.hpp"

namespace matchset {

struct Found {
  std::vector<std::int64_t> offsets;  // (n + 1,)
  std::vector<std::int32_t> nodes;    // leaf positions, best first
  std::vector<float> scores;
};

// The results of search_one for each row or text, in their order.
Found search_rows(const PackedView& tree, const CsrView& X, const SearchRule& rule, unsigned n_threads);
Found search_texts(const PackedView& tree, const VocabularyView& vocabulary, const StringsView& texts,
                   const SearchRule& rule, unsigned n_threads);

}  // namespace matchset
