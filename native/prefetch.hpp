// Prefetching: how is memory asked for ahead of its use?
#pragma once

namespace matchset {

// Into the second-level cache, to which far more lines may be on their way at once than to the first: random lines of
// a large array arrive almost twice as fast. The empty instruction keeps what calls this: GCC 12 takes a function that
// does nothing but prefetch for one without effect, and drops every call of it.
inline void prefetch_far(const void* at) {
  __builtin_prefetch(at, 0, 2);
  __asm__ volatile("");
}

}  // namespace matchset
