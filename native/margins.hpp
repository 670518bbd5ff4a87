// Margins: how strongly does a query call for each child of a block?
#pragma once

#include "packed.hpp"
#include "row_lookup.hpp"

namespace matchset {

// Writes bias + w.x of each child to `margins`, of kMaxSiblings floats. Sums go form by form, and within one
// in the order of the features.
void compute_margins(const BlockView& block, Precision precision, const FoundRows& rows, float* margins);

}  // namespace matchset
