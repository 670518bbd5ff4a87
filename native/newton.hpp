// Newton's method for small smooth convex problems, with the same result on every machine.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace matchset {

// A loss at some weights, its gradient, and its matrix of second derivatives.
struct Curvature {
  explicit Curvature(std::size_t n) : gradient(n), hessian(n * n) {}

  double loss = 0;
  std::vector<double> gradient;
  std::vector<double> hessian;  // row by row; only the lower triangle is read

  void operator+=(const Curvature& other);
};

// e^x and the natural logarithm by sums of fixed order: those of the C library differ between machines.
double exp_fixed(double x);
double log_fixed(double x);
// The very same of many values at once: exponents from -700 to 700, and logarithms of numbers that are not subnormal.
void exp_fixed(std::span<double> values);
void log_fixed(std::span<double> values);

// What weights are before anything is seen: the loss of those at a distance d from the center grows by d'Pd / 2.
struct Prior {
  std::span<const double> center;
  std::span<const double> precision;  // P, symmetric, row by row
};

// The weights of least loss beside a prior, found from its center on. `evaluate` adds to a Curvature that is zero.
// Steps are halved until the loss falls; it ends when a step gains less than 1e-9 of the loss.
std::vector<double> minimize(const Prior& prior, const std::function<Curvature(const std::vector<double>&)>& evaluate);

}  // namespace matchset
