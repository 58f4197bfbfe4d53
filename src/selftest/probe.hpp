// Probe: the device under test as a check sees it, and how far its results were off.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/memory.hpp"
#include "selftest/tensor.hpp"

namespace trireme::selftest {

// What one rank found in one check.
struct Finding {
  // Of the comparison that came nearest to its bound, or went farthest beyond it.
  double error = 0, bound = 0;
  std::int64_t comparisons = 0;
  std::string left_out;  // why the check was not made here; empty: it was

  // The error as a share of its bound; infinite for any error where none is allowed.
  double share() const;
  bool wrong() const { return !(share() <= 1); }
};

// Every comparison takes what the device gave and what is right, and keeps the worst.
class Probe {
 public:
  // faulty: the first result that is compared is spoiled, for tests.
  Probe(Device device, bool faulty);

  Device device() const { return device_; }
  Stream& stream() { return stream_; }
  // Working memory of kernels that take some on a host.
  Arena& scratch();

  Tensor zeros(DType dtype, const Shape& shape, std::int64_t padding = 0) const {
    return Tensor(device_, dtype, shape, padding);
  }
  // Normal numbers, the same for the same seed.
  Tensor normal(DType dtype, const Shape& shape, std::uint64_t seed,
                std::int64_t padding = 0) const;
  Tensor filled(DType dtype, const Shape& shape, const Vector& values) const;
  Integers integers(const Shape& shape, std::vector<std::int32_t> values = {}) const {
    return Integers(device_, shape, std::move(values));
  }

  // Each element errs by no more than storing it in `dtype`, and `absolute`.
  void close(DType dtype, Vector actual, const Vector& expected, double absolute);
  // Each element errs by no more than its own bound.
  void within(Vector actual, const Vector& expected, const Vector& bounds);
  // The L2 norm of the difference is no more than `bound` times that of what is right,
  // or times `floor` where that is larger.
  void relative(Vector actual, const Vector& expected, double bound, double floor = 0);
  void equal(Vector actual, const Vector& expected);
  void equal(const std::vector<std::int32_t>& actual,
             const std::vector<std::int32_t>& expected);
  void equal(const std::vector<std::uint8_t>& actual,
             const std::vector<std::uint8_t>& expected);

  void leave_out(const std::string& why) { finding_.left_out = why; }
  const Finding& finding() const { return finding_; }

 private:
  void note(double error, double bound);
  void spoil(Vector& actual);
  bool same_size(const Vector& actual, const Vector& expected);

  Device device_;
  Stream stream_;
  bool faulty_;
  Arena scratch_;
  Finding finding_;
};

}  // namespace trireme::selftest
