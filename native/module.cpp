// The Python module. Only module*.cpp, module.hpp and python_*.hpp know Python; kernels get views over plain memory.
//
// All bindings are written in one style. A file module_X.cpp has a function py_f for each function or method f that
// Python sees: it checks its arguments, calls the kernel without_gil and hands the result over. bind_X at its end only
// lists names, arguments and docstrings. Every array argument is noconvert(): nanobind would else copy silently.
#include "module.hpp"

NB_MODULE(_native, m) {
  nanobind::set_leak_warnings(false);  // Python's caches hold native values until the process ends
  m.doc() = "Kernels of matchset: plain arrays in, plain arrays out.";
  matchset::bind_memory(m);
  matchset::bind_strings(m);
  matchset::bind_arrow(m);
  matchset::bind_log(m);
  matchset::bind_features(m);
  matchset::bind_learn(m);
  matchset::bind_postings(m);
  matchset::bind_search(m);
  matchset::bind_json_products(m);
  matchset::bind_towers(m);
  matchset::bind_match_set(m);
}
