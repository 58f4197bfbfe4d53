// Comparisons of results with what is right.
// SPDX-License-Identifier: Apache-2.0
#include "selftest/probe.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/philox.hpp"

namespace trireme::selftest {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

template <class T>
Vector doubles(const std::vector<T>& values) {
  return {values.begin(), values.end()};
}

double share_of(double error, double bound) {
  if (error == 0) return 0;
  return bound > 0 ? error / bound : infinity;
}

// |a - b|, infinite where that is no number: a NaN is never right here.
double distance(double a, double b) {
  const double d = std::abs(a - b);
  return std::isnan(d) ? infinity : d;
}

}  // namespace

double Finding::share() const { return share_of(error, bound); }

Probe::Probe(Device device, bool faulty)
    : device_(device),
      stream_(device),
      faulty_(faulty),
      scratch_(device, device.is_host() ? std::size_t{16} << 20 : 64,
               MemoryClass::workspace, "self-test scratch") {}

Arena& Probe::scratch() { return scratch_; }

Tensor Probe::normal(DType dtype, const Shape& shape, std::uint64_t seed,
                     std::int64_t padding) const {
  const Random random(seed, hash_name("self-test"));
  Vector values(static_cast<std::size_t>(shape.elements()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = random.normal(i);
  Tensor result(device_, dtype, shape, padding);
  result.set(values);
  return result;
}

Tensor Probe::filled(DType dtype, const Shape& shape, const Vector& values) const {
  Tensor result(device_, dtype, shape);
  result.set(values);
  return result;
}

void Probe::close(DType dtype, Vector actual, const Vector& expected, double absolute) {
  if (!same_size(actual, expected)) return;
  spoil(actual);
  for (std::size_t i = 0; i < actual.size(); ++i)
    note(distance(actual[i], expected[i]), storing(dtype, expected[i]) + absolute);
}

void Probe::within(Vector actual, const Vector& expected, const Vector& bounds) {
  if (!same_size(actual, expected)) return;
  spoil(actual);
  for (std::size_t i = 0; i < actual.size(); ++i)
    note(distance(actual[i], expected[i]), bounds[i]);
}

void Probe::relative(Vector actual, const Vector& expected, double bound, double floor) {
  if (!same_size(actual, expected)) return;
  spoil(actual);
  Vector difference(actual.size());
  for (std::size_t i = 0; i < actual.size(); ++i)
    difference[i] = distance(actual[i], expected[i]);
  note(norm(difference) / std::max({norm(expected), floor, 1e-300}), bound);
}

void Probe::equal(Vector actual, const Vector& expected) {
  if (!same_size(actual, expected)) return;
  spoil(actual);
  for (std::size_t i = 0; i < actual.size(); ++i)
    note(distance(actual[i], expected[i]), 0);
}

void Probe::equal(const std::vector<std::int32_t>& actual,
                  const std::vector<std::int32_t>& expected) {
  equal(doubles(actual), doubles(expected));
}

void Probe::equal(const std::vector<std::uint8_t>& actual,
                  const std::vector<std::uint8_t>& expected) {
  equal(doubles(actual), doubles(expected));
}

void Probe::note(double error, double bound) {
  const bool first = finding_.comparisons++ == 0;
  if (!first && !(share_of(error, bound) > finding_.share())) return;
  finding_.error = error;
  finding_.bound = bound;
}

// As if a bit of an exponent had flipped. The largest element: where a small one would
// drown in what rounding may do to a sum, this one does not.
void Probe::spoil(Vector& actual) {
  if (!faulty_ || actual.empty()) return;
  faulty_ = false;
  const auto most =
      std::max_element(actual.begin(), actual.end(),
                       [](double a, double b) { return std::abs(a) < std::abs(b); });
  *most = *most == 0 ? 1.0 : *most * -64;
}

bool Probe::same_size(const Vector& actual, const Vector& expected) {
  if (actual.size() == expected.size()) return true;
  note(infinity, 0);
  return false;
}

}  // namespace trireme::selftest
