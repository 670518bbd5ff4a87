// Arrays between NumPy and the kernels: borrowed on the way in, handed over on the way out.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <span>
#include <utility>
#include <vector>

namespace matchset {

template <typename T>
using Out = nanobind::ndarray<nanobind::numpy, T, nanobind::ndim<1>>;
template <typename T>
using In = nanobind::ndarray<nanobind::numpy, const T, nanobind::ndim<1>, nanobind::c_contig>;

// Hands a vector over to NumPy without a copy.
template <typename T, typename Stored = T>
Out<T> to_numpy(std::vector<Stored>&& values) {
  static_assert(sizeof(T) == sizeof(Stored));
  auto* owned = new std::vector<Stored>(std::move(values));  // owned by the capsule below
  nanobind::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::vector<Stored>*>(p); });
  return Out<T>(reinterpret_cast<T*>(owned->data()), {owned->size()}, owner);
}

template <typename T>
std::span<const T> to_span(const In<T>& array) {
  return {array.data(), array.size()};
}

}  // namespace matchset
