// Label embeddings: what do the instances of a label have in common?
#pragma once

#include <cstdint>
#include <span>

#include "buffer.hpp"
#include "csr.hpp"

namespace matchset {

struct OwnedCsr {
  Buffer<std::int64_t> offsets;
  RawBuffer<std::int32_t> columns;
  RawBuffer<float> values;
};

// For each label the weighted sum of the rows of X listed for it (positive instance feature
// aggregation), cut to its `max_entries` largest entries and scaled to length one.
OwnedCsr sum_instances(const CsrView& X, const CsrView& instances, std::size_t max_entries, unsigned n_threads);

}  // namespace matchset
