// A model of numbers that are a function of their place, and codes that are made of it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "base/memory.hpp"
#include "base/philox.hpp"
#include "convert/quantized_base.hpp"
#include "io/host_copy.hpp"
#include "kernels/elementwise.hpp"

namespace trireme::test {

// Every tensor there may be, in f32, of numbers that bf16 holds.
class NumbersByPlace : public io::TensorSource {
 public:
  static double value(const std::string& path, std::int64_t index) {
    const Random random(3, hash_name(path));
    const double x = 0.5 * random.uniform(static_cast<std::uint64_t>(index)) - 0.25;
    return static_cast<float>(BFloat16(static_cast<float>(x)));
  }

  void read(const std::string& path, const Shape& whole, const Shape& begin,
            const TensorView& out) const override {
    const Buffer numbers(Device::host(), DType::f64, out.shape(), MemoryClass::data, "");
    const std::int64_t width = whole.rank() == 2 ? whole[1] : 1;
    const std::int64_t columns = whole.rank() == 2 ? out.dim(1) : 1;
    for (std::int64_t i = 0; i < out.elements(); ++i)
      numbers.view().data<double>()[i] =
          value(path, (begin[0] + i / columns) * width +
                          (whole.rank() == 2 ? begin[1] : 0) + i % columns);
    io::HostCopy host;
    host.write(out, [&](const TensorView& view) {
      Stream stream;
      kernels::copy(stream, numbers.view(), view);
    });
  }
};

inline std::shared_ptr<const convert::QuantizedBase> coded_base(
    model::BaseCodes kind, DType rounded_to = DType::f32) {
  return std::make_shared<const convert::QuantizedBase>(
      std::make_shared<const NumbersByPlace>(), kind,
      [rounded_to](const std::string&) { return rounded_to; });
}

}  // namespace trireme::test
