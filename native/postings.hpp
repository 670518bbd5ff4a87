// Inverted index: which documents share features with a query, and how strongly?
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "csr.hpp"

namespace matchset {

struct Ranked {
  std::vector<std::int64_t> offsets;    // (n_queries + 1,)
  std::vector<std::int32_t> documents;  // of each query, best first
  std::vector<float> scores;
};

// The k documents with the largest dot product with each row of X, if above zero; ties go to the lower document.
//
// A row of `index` lists the documents that have a feature, with its weight there. It may be memory-mapped, so
// it is checked when read. `allowed` holds one byte per document, zero if it must not be returned; if it is empty, all
// are allowed.
Ranked rank_documents(const CsrView& index, const CsrView& X, std::span<const std::uint8_t> allowed, std::size_t k,
                      unsigned n_threads);

}  // namespace matchset
