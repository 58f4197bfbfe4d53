// weights_digest: which changes of weights it notices.
// SPDX-License-Identifier: Apache-2.0
#include "infer/weights_digest.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace trireme::infer {
namespace {

const std::string table = "model/model.embed_tokens.weight";

// Zeros, but for one box of the embedding.
class Zeros : public io::TensorSource {
 public:
  Zeros(const Shape& begin, const Shape& end) : begin_(begin), end_(end) {}

  void read(const std::string& path, const Shape&, const Shape& begin,
            const TensorView& out) const override {
    const auto numbers = out.span<float>();
    std::fill(numbers.begin(), numbers.end(), 0.0F);
    if (path != table) return;
    for (std::int64_t i = 0; i < out.dim(0); ++i)
      for (std::int64_t j = 0; j < out.dim(1); ++j) {
        const std::int64_t row = begin[0] + i, column = begin[1] + j;
        if (row >= begin_[0] && row < end_[0] && column >= begin_[1] && column < end_[1])
          numbers[static_cast<std::size_t>(i * out.dim(1) + j)] = 1;
      }
  }

 private:
  Shape begin_, end_;
};

std::string digest(const Shape& begin, const Shape& end) {
  const model::ModelConfig model{.architecture = model::Architecture::llama,
                                 .layers = 1,
                                 .hidden = 600,
                                 .heads = 4,
                                 .kv_heads = 2,
                                 .feed_forward = 20,
                                 .vocabulary = 301,
                                 .sequence = 8,
                                 .rope_theta = 10000.0,
                                 .norm_eps = 1e-5};
  return weights_digest(Zeros(begin, end), model);
}

TEST(WeightsDigest, RowsAndColumnsAreSampledThroughout) {
  const std::string zeros = digest({0, 0}, {0, 0});
  EXPECT_EQ(digest({0, 0}, {0, 0}), zeros);
  for (std::int64_t row = 0; row + 21 <= 301; row += 20)  // samples are 20 rows apart
    EXPECT_NE(digest({row, 0}, {row + 21, 600}), zeros) << row;
  for (std::int64_t column = 0; column + 24 <= 600; column += 24)
    EXPECT_NE(digest({0, column}, {301, column + 24}), zeros) << column;
  EXPECT_EQ(digest({1, 0}, {20, 600}), zeros);  // what is taken for the same
}

}  // namespace
}  // namespace trireme::infer
