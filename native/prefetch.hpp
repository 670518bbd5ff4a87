// Prefetching: how is memory asked for ahead of its use?
#pragma once

namespace matchset {

// Into the second-level cache, to which far more lines may be on their way at once than to the first: random lines of
// a large array arrive almost twice as fast.
inline void prefetch_far(const void* at) { __builtin_prefetch(at, 0, 2); }

}  // namespace matchset
