// MergedAdapters: whole tensors of adapters, weighed beside others.
// SPDX-License-Identifier: Apache-2.0
#include "convert/merged_adapters.hpp"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "base/memory.hpp"
#include "io/element_convert.hpp"

namespace trireme::convert {
namespace {

using Numbers = std::vector<double>;

// Whole tensors of one or two dims, by their paths.
class Tensors : public io::TensorSource, public io::CodeSource {
 public:
  explicit Tensors(std::map<std::string, Numbers> numbers)
      : numbers_(std::move(numbers)) {}

  void read(const std::string& path, const Shape& whole, const Shape& begin,
            const TensorView& out) const override {
    const bool matrix = whole.rank() == 2;
    const std::int64_t rows = matrix ? out.dim(0) : 1;
    const std::int64_t columns = matrix ? out.dim(1) : out.dim(0);
    for (std::int64_t i = 0; i < rows; ++i) {
      const std::int64_t at = matrix ? (begin[0] + i) * whole[1] + begin[1] : begin[0];
      io::convert_elements(numbers_.at(path).data() + at, DType::f64,
                           matrix ? out.rows(i, 1).raw() : out.raw(), out.dtype(),
                           columns);
    }
  }
  std::size_t code_bytes(const std::string&, const Shape&, const Shape&,
                         const Shape&) const override {
    return 1;
  }
  OwnedCodes read_codes(const std::string&, const Shape&, const Shape&,
                        const Shape&) const override {
    fail(Status::internal, "codes are not read here");
  }

 private:
  std::map<std::string, Numbers> numbers_;
};

const std::string module = "model.layers.0.mlp.up_proj";
const std::string table = "model.embed_tokens.weight", norm = "model.norm.weight";

AddedAdapter adapter(double weight, std::map<std::string, Numbers> tensors) {
  nn::AdapterConfig config;
  config.rank = 1;
  config.alpha = 1;
  config.targets = {std::string(nn::all_linear)};
  const auto has = [tensors](const std::string& name) {
    return tensors.contains("model/" + name);
  };
  return {std::make_shared<Tensors>(tensors), config, weight, has};
}

// Bases: the table 1 2 / 3 4, the norm 1 2 3, the module 1 2 / 3 4.
MergedAdapters source(std::vector<AddedAdapter> adapters) {
  return {std::make_shared<Tensors>(std::map<std::string, Numbers>{
              {"model/" + table, {1, 2, 3, 4}},
              {"model/" + norm, {1, 2, 3}},
              {"model/" + module + ".weight", {1, 2, 3, 4}}}),
          std::move(adapters)};
}

Numbers read(const MergedAdapters& source, const std::string& name, const Shape& whole) {
  const Buffer out(Device::host(), DType::f64, whole, MemoryClass::data, "tensor");
  Shape begin = whole;
  for (int i = 0; i < whole.rank(); ++i) begin[i] = 0;
  source.read("model/" + name, whole, begin, out.view());
  const auto numbers = out.view().span<double>();
  return {numbers.begin(), numbers.end()};
}

TEST(MergedAdapters, WholeTensorsAddTheirWeightedDifference) {
  const auto first = [](double weight) {
    return adapter(weight,
                   {{"model/" + table, {5, 2, 3, 8}}, {"model/" + norm, {1, 6, 3}}});
  };
  const auto second = [](double weight) {
    return adapter(weight, {{"model/" + table, {1, 4, 3, 4}}});
  };
  const auto one = source({first(1)});
  EXPECT_EQ(read(one, table, {2, 2}), (Numbers{5, 2, 3, 8}));
  const auto half = source({first(0.5)});
  EXPECT_EQ(read(half, table, {2, 2}), (Numbers{3, 2, 3, 6}));
  EXPECT_EQ(read(half, norm, {3}), (Numbers{1, 4, 3}));
  const auto both = source({first(1), second(0.5)});
  EXPECT_EQ(read(both, table, {2, 2}), (Numbers{5, 3, 3, 8}));
  EXPECT_EQ(read(both, norm, {3}), (Numbers{1, 6, 3}));
  const auto none = source({first(0), second(1)});
  EXPECT_EQ(read(none, table, {2, 2}), (Numbers{1, 4, 3, 4}));
  EXPECT_EQ(read(none, norm, {3}), (Numbers{1, 2, 3}));
}

TEST(MergedAdapters, WholeTensorsGoBesideProductsOfOthers) {
  const auto whole = adapter(0.5, {{"model/" + module + ".weight", {3, 2, 3, 4}}});
  const auto product = adapter(2, {{"model/" + module + ".lora_A.weight", {1, 0}},
                                   {"model/" + module + ".lora_B.weight", {0, 5}}});
  const auto sum = source({whole, product});
  EXPECT_EQ(read(sum, module + ".weight", {2, 2}), (Numbers{2, 2, 13, 4}));
}

TEST(MergedAdapters, WhatAnAdapterChangesHasNoCodes) {
  const auto changed = source({adapter(0.5, {{"model/" + table, {5, 2, 3, 8}}})});
  EXPECT_EQ(changed.code_bytes("model/" + table, {2, 2}, {0, 0}, {2, 2}), 0U);
  EXPECT_EQ(changed.code_bytes("model/" + norm, {3}, {0}, {3}), 1U);
}

}  // namespace
}  // namespace trireme::convert
