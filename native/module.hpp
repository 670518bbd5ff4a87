// What all bindings share.
#pragma once

#include <nanobind/nanobind.h>

#include <utility>

namespace matchset {

namespace nb = nanobind;
using namespace nb::literals;

void bind_arrow(nb::module_& m);          // module_arrow.cpp
void bind_features(nb::module_& m);       // module_features.cpp
void bind_json_products(nb::module_& m);  // module_json_products.cpp
void bind_learn(nb::module_& m);          // module_learn.cpp
void bind_log(nb::module_& m);            // module_log.cpp
void bind_match_set(nb::module_& m);      // module_match_set.cpp
void bind_memory(nb::module_& m);         // module_memory.cpp
void bind_postings(nb::module_& m);       // module_postings.cpp
void bind_search(nb::module_& m);         // module_search.cpp
void bind_strings(nb::module_& m);        // module_strings.cpp
void bind_towers(nb::module_& m);         // module_towers.cpp

// Runs a kernel while other Python threads go on; it must not touch Python.
template <typename Kernel>
auto without_gil(Kernel&& kernel) {
  const nb::gil_scoped_release release;
  return std::forward<Kernel>(kernel)();
}

}  // namespace matchset
