#include "newton.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>

#include "simd.hpp"
#include "target_clones.hpp"

namespace matchset {
namespace {

constexpr int kMaxSteps = 50, kMaxHalvings = 30;
constexpr double kLn2High = 0.693147180369123816490, kLn2Low = 1.90821492927058770002e-10;

constexpr std::array kInverseFactorials = [] {  // of 0 to 13
  std::array<double, 14> values{};
  double factorial = 1;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i > 0) factorial *= static_cast<double>(i);
    values[i] = 1 / factorial;
  }
  return values;
}();
constexpr std::array kInverseOdds = [] {  // of 23, 21, ..., 1
  std::array<double, 12> values{};
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 1 / static_cast<double>(23 - 2 * i);
  return values;
}();

// 2^52: the fraction of a number between it and twice it is an integer.
constexpr double kMagic = 4503599627370496;
constexpr double kRounding = 1.5 * kMagic;  // what is added to this is rounded to an integer
constexpr std::uint64_t kMagicBits = std::uint64_t{1075} << 52;

// Without branches or conversions, so that compilers can do many at once. -708 <= x <= 709.
MATCHSET_INLINE double exp_within(double x) {
  const double scaled = x * 1.44269504088896340736 + 0.5, nearest = (scaled + kRounding) - kRounding;
  const double n = nearest > scaled ? nearest - 1 : nearest;  // the largest integer that is not above
  const double r = x - n * kLn2High - n * kLn2Low;            // at most 0.35 in size
  double sum = kInverseFactorials.back();
#pragma GCC unroll 16
  for (std::size_t i = kInverseFactorials.size() - 1; i-- > 0;) sum = sum * r + kInverseFactorials[i];
  return sum * std::bit_cast<double>((std::bit_cast<std::uint64_t>(n + (kMagic + 1023)) & 0xFFF) << 52);
}

// Of m * 2^exponent, 0.5 <= m < 1.
MATCHSET_INLINE double log_of(double m, double exponent) {
  const bool is_small = m < 0.70710678118654752440;
  m = is_small ? 2 * m : m;
  exponent = is_small ? exponent - 1 : exponent;
  const double t = (m - 1) / (m + 1), square = t * t;  // t is at most 0.172 in size
  double sum = 0;
#pragma GCC unroll 16
  for (const double inverse : kInverseOdds) sum = sum * square + inverse;
  return exponent * kLn2High + (2 * t * sum + exponent * kLn2Low);
}

// Solves A x = b by Cholesky's method; A is symmetric, and made positive by what is added to its diagonal.
std::vector<double> solve(std::vector<double> A, std::vector<double> b) {
  const std::size_t n = b.size();
  for (std::size_t j = 0; j < n; ++j) {
    for (std::size_t k = 0; k < j; ++k) A[j * n + j] -= A[j * n + k] * A[j * n + k];
    A[j * n + j] = std::sqrt(std::max(A[j * n + j], 1e-12));
    for (std::size_t i = j + 1; i < n; ++i) {
      for (std::size_t k = 0; k < j; ++k) A[i * n + j] -= A[i * n + k] * A[j * n + k];
      A[i * n + j] /= A[j * n + j];
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < i; ++k) b[i] -= A[i * n + k] * b[k];
    b[i] /= A[i * n + i];
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t k = i + 1; k < n; ++k) b[i] -= A[k * n + i] * b[k];
    b[i] /= A[i * n + i];
  }
  return b;
}

double add_prior(const std::vector<double>& weights, const Prior& prior, Curvature& at) {
  const std::size_t n = weights.size();
  for (std::size_t i = 0; i < n; ++i) {
    double pull = 0;
    for (std::size_t j = 0; j < n; ++j) pull += prior.precision[i * n + j] * (weights[j] - prior.center[j]);
    at.loss += pull / 2 * (weights[i] - prior.center[i]);
    at.gradient[i] += pull;
    for (std::size_t j = 0; j <= i; ++j) at.hessian[i * n + j] += prior.precision[i * n + j];
  }
  return at.loss;
}

}  // namespace

void Curvature::operator+=(const Curvature& other) {
  loss += other.loss;
  for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] += other.gradient[i];
  for (std::size_t i = 0; i < hessian.size(); ++i) hessian[i] += other.hessian[i];
}

double exp_fixed(double x) {
  if (x < -708) return 0;
  if (x > 709) return std::numeric_limits<double>::infinity();
  return exp_within(x);
}

double log_fixed(double x) {
  int exponent;
  const double m = std::frexp(x, &exponent);  // exact: from 0.5 to 1
  return log_of(m, exponent);
}

MATCHSET_CLONES void exp_fixed(std::span<double> values) {
  for (double& value : values) value = exp_within(value);
}

MATCHSET_CLONES void log_fixed(std::span<double> values) {
  constexpr std::uint64_t kFraction = (std::uint64_t{1} << 52) - 1, kHalf = std::uint64_t{1022} << 52;
  for (double& value : values) {
    const auto bits = std::bit_cast<std::uint64_t>(value);
    const double exponent = std::bit_cast<double>(bits >> 52 | kMagicBits) - (kMagic + 1022);
    value = log_of(std::bit_cast<double>((bits & kFraction) | kHalf), exponent);
  }
}

std::vector<double> minimize(const Prior& prior, const std::function<Curvature(const std::vector<double>&)>& evaluate) {
  std::vector<double> weights(prior.center.begin(), prior.center.end());
  Curvature here = evaluate(weights);
  double loss = add_prior(weights, prior, here);
  for (int step = 0; step < kMaxSteps; ++step) {
    const std::vector<double> direction = solve(here.hessian, here.gradient);
    double share = 1;
    bool has_fallen = false;
    for (int halving = 0; halving < kMaxHalvings && !has_fallen; ++halving, share /= 2) {
      std::vector<double> next = weights;
      for (std::size_t i = 0; i < next.size(); ++i) next[i] -= share * direction[i];
      Curvature there = evaluate(next);
      const double next_loss = add_prior(next, prior, there);
      if (next_loss < loss) {
        has_fallen = loss - next_loss > 1e-9 * std::abs(loss);
        weights = std::move(next);
        here = std::move(there);
        loss = next_loss;
        break;
      }
    }
    if (!has_fallen) break;
  }
  return weights;
}

}  // namespace matchset
