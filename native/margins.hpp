// Margins: what is w.x of a query for each child of a block?
#pragma once

#include "packed.hpp"
#include "row_lookup.hpp"

namespace matchset {

// Writes bias + w.x of each child to `margins`, an array of kMaxSiblings floats. Rows are added form by form, and
// within a form in the order of the features.
void compute_margins(const BlockView& block, Precision precision, const FoundRows& rows, float* margins);

}  // namespace matchset
