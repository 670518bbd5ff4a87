// AVX-512 intrinsics, for what compilers do not find in plain loops: does this machine have them?
#pragma once

#if defined(__x86_64__)
#include <cstdlib>

#pragma GCC diagnostic push
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wuninitialized"  // GCC 12 warns about its own header
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#pragma GCC diagnostic pop

#define MATCHSET_AVX512 __attribute__((target("arch=x86-64-v4")))
#define MATCHSET_VNNI __attribute__((target("arch=x86-64-v4,avx512vnni")))

namespace matchset {

// Results are the same without; tests set MATCHSET_PLAIN in the environment to compare.
inline const bool has_avx512 = __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
                               __builtin_cpu_supports("avx512vl") != 0 && __builtin_cpu_supports("avx512dq") != 0 &&
                               __builtin_cpu_supports("avx512cd") != 0 && __builtin_cpu_supports("bmi") != 0 &&
                               __builtin_cpu_supports("bmi2") != 0 && std::getenv("MATCHSET_PLAIN") == nullptr;
// Products of bytes, added up in fours.
inline const bool has_vnni = has_avx512 && __builtin_cpu_supports("avx512vnni") != 0;

}  // namespace matchset
#endif
