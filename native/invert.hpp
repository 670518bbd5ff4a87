// Inversion: in which documents does each term matter most?
#pragma once

#include <cstddef>
#include <cstdint>

#include "buffer.hpp"
#include "csr.hpp"

namespace matchset {

inline constexpr int kLargestImpact = 255;

struct InvertedDocuments {
  Buffer<std::int64_t> offsets;  // (n_terms + 1,)
  Buffer<std::int32_t> documents;
  Buffer<std::uint8_t> impacts;  // shares of the largest weight, at least 1
};

// For each of the first `n_terms` columns of documents x terms its documents, the largest impacts first, then by id.
InvertedDocuments invert(const CsrView& documents, std::size_t n_terms, double largest, unsigned n_threads);

}  // namespace matchset
