// The gradient of the table lookup adds the tokens of a row in their order.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/embedding.hpp"
#include "unit/kernels/elementwise_tensors.hpp"

namespace trireme::test {
namespace {

// Row numbers of one, two and three bytes, more tokens than one block of a GPU sorts,
// rows with very many tokens, with none, and tokens of other ranks' rows.
TEST(Embedding, BackwardAddsTokensInTheirOrderToTheBit) {
  Stream stream(test_device());
  const Random random(5, 6);
  for (const std::int64_t R : {11, 255, 256, 300, 70000})
    for (const std::int64_t T : {1, 33, 4096, 9001}) {
      const std::int64_t D = T > 4096 || R > 300 ? 4 : 9, first = 2;
      std::vector<std::int32_t> index;
      for (std::int64_t t = 0; t < T; ++t) {
        const auto any = static_cast<std::int64_t>(
            std::abs(random.normal(static_cast<std::uint64_t>(t))) * 0.3 * double(R + 5));
        index.push_back(static_cast<std::int32_t>(t % 3 == 0 ? 7 : any % (R + 5)));
      }
      const Tensor dy = Tensor::normal(DType::f32, {T, D}, 1);
      const Tensor dtable = Tensor::normal(DType::f32, {R, D}, 2);
      const Vector from = dy.values();
      Vector expected = dtable.values();
      for (std::int64_t t = 0; t < T; ++t) {
        const std::int64_t row = index[static_cast<std::size_t>(t)] - first;
        if (row < 0 || row >= R) continue;
        for (std::int64_t d = 0; d < D; ++d) {
          double& sum = expected[static_cast<std::size_t>(row * D + d)];
          sum = static_cast<float>(sum + from[static_cast<std::size_t>(t * D + d)]);
        }
      }
      kernels::embedding_backward(stream, dy, Indices(index), first, dtable);
      EXPECT_EQ(dtable.values(), expected) << "R = " << R << ", T = " << T;
    }
}

}  // namespace
}  // namespace trireme::test
