// Function multiversioning: one binary that uses the widest vectors of each machine.
#pragma once

// Put before a hot function that is self-contained (callees inlined): the compiler makes one version
// per level and the loader picks the best. "arch=x86-64-v3" brings AVX2 *and* FMA; plain "avx2" has no FMA.
#if defined(__x86_64__) && defined(__linux__) && !defined(MATCHSET_NO_CLONES) && \
    ((defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 12) ||             \
     (defined(__clang_major__) && __clang_major__ >= 17))
#define MATCHSET_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define MATCHSET_CLONES
#endif
