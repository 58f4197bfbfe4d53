// cuDNN's attention against the reference and our own kernels, and the choice of one.
// SPDX-License-Identifier: Apache-2.0
// What needs the library and a GPU that it knows is skipped elsewhere; every CUDA build
// tests refusals.
#include <gtest/gtest.h>

#include <string>

#include "kernels/cuda/attention/cudnn.hpp"
#include "kernels/runtime/cuda_version.hpp"
#include "unit/kernels/attention/attention_bounds.hpp"
#include "unit/kernels/attention/attention_case.hpp"

namespace trireme::test {
namespace {

using kernels::AttentionLibrary;

constexpr std::int64_t aligned = 8;  // columns beside operands: 16 bytes

// For as long as a test lasts.
class Choose {
 public:
  explicit Choose(AttentionLibrary library, bool deterministic = true) {
    kernels::set_attention_library(library);
    kernels::set_attention_deterministic(deterministic);
  }
  ~Choose() {
    kernels::set_attention_library(AttentionLibrary::automatic);
    kernels::set_attention_deterministic(true);
  }
  Choose(const Choose&) = delete;
  Choose& operator=(const Choose&) = delete;
};

template <class T>
class AttentionCudnn : public testing::Test {
 protected:
  void SetUp() override {
    if (!kernels::cudnn_is_built())
      GTEST_SKIP() << "cuDNN is " << kernels::cudnn_version();
    if (!test_device().is_cuda()) GTEST_SKIP() << "the test's device is the host";
  }
  // Why cuDNN does no backward on this GPU, whatever the shape; empty: it does.
  static std::string no_backward(bool deterministic = true) {
    const Choose cudnn(AttentionLibrary::cudnn, deterministic);
    AttentionCase<T> x(attention_shape(1, 64, 64, 2, {0, 1}), 1, aligned);
    x.forward();
    try {
      x.backward();
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::resources);
      return error.what();
    }
    return "";
  }
};
using Types = testing::Types<BFloat16, Float16>;
TYPED_TEST_SUITE(AttentionCudnn, Types);

// Also on GPUs on which backward is our own.
TYPED_TEST(AttentionCudnn, ForwardAgreesWithOurOwnKernels) {
  using T = TypeParam;
  const auto shape = attention_shape(2, 257, 128, 2, {0, 0, 1, 1});
  AttentionCase<T> x(shape, 1, aligned), y(shape, 1, aligned);
  {
    const Choose cudnn(AttentionLibrary::cudnn);
    x.forward();
  }
  const Choose own(AttentionLibrary::own);
  y.forward();
  EXPECT_LT(distance(doubles<float>(x.lse()), doubles<float>(y.lse())),
            2 * x.accumulated());
  EXPECT_LT(distance(doubles<T>(x.o()), doubles<T>(y.o())), 1e-2);
}

TYPED_TEST(AttentionCudnn, AgreesWithTheReference) {
  if (const std::string why = this->no_backward(); !why.empty()) GTEST_SKIP() << why;
  const Choose cudnn(AttentionLibrary::cudnn);
  for (const std::int64_t S : {17, 64, 130, 257}) {
    for (const std::int64_t K : {64, 128}) {
      for (const auto& [G, kv_head] :
           {std::pair<std::int64_t, std::vector<std::int32_t>>{3, {0, 1, 2}},
            {2, {0, 0, 1, 1}},
            {1, {0, 0, 0}}}) {
        AttentionCase<TypeParam> x(attention_shape(2, S, K, G, kv_head), 1, aligned);
        Bounds bounds = bounds_of(x);
        if (G < x.shape.heads) add_rounded_heads(x, bounds);
        expect_agreement(x, bounds);
      }
    }
  }
}

// Sums in any order, also of head groups and of rows that are no multiple of a tile.
TYPED_TEST(AttentionCudnn, InAnyOrderAgreesWithTheReference) {
  if (const std::string why = this->no_backward(false); !why.empty()) GTEST_SKIP() << why;
  const Choose cudnn(AttentionLibrary::cudnn, false);
  for (const std::int64_t S : {64, 130, 257}) {
    for (const std::vector<std::int32_t>& kv_head :
         {std::vector<std::int32_t>{0, 1, 2, 3}, {0, 0, 1, 1}}) {
      AttentionCase<TypeParam> x(attention_shape(2, S, 64, 1 + kv_head.back(), kv_head),
                                 1, aligned);
      Bounds bounds = bounds_of(x);
      if (x.shape.kv_heads < x.shape.heads) add_rounded_heads(x, bounds);
      expect_agreement(x, bounds);
    }
  }
}

// Rows of lse that do not begin at multiples of 16 bytes, and a scale that is no power of
// two.
TYPED_TEST(AttentionCudnn, KeepsToStridesAndScale) {
  if (const std::string why = this->no_backward(); !why.empty()) GTEST_SKIP() << why;
  const Choose cudnn(AttentionLibrary::cudnn);
  AttentionCase<TypeParam> x(attention_shape(3, 200, 64, 5, {0, 1, 2, 3, 4}), 1, 40);
  x.shape.scale = 0.15;
  expect_agreement(x, bounds_of(x));
}

// Both round the same values, in other orders.
TYPED_TEST(AttentionCudnn, AgreesWithOurOwnKernels) {
  using T = TypeParam;
  if (const std::string why = this->no_backward(); !why.empty()) GTEST_SKIP() << why;
  const auto shape = attention_shape(2, 1000, 128, 2, {0, 0, 1, 1});
  AttentionCase<T> x(shape, 1, aligned), y(shape, 1, aligned);
  const auto compute = [](AttentionCase<T>& c, AttentionLibrary library) {
    const Choose chosen(library);
    c.forward();
    c.backward();
  };
  compute(x, AttentionLibrary::cudnn);
  compute(y, AttentionLibrary::own);
  EXPECT_LT(distance(doubles<float>(x.lse()), doubles<float>(y.lse())),
            2 * x.accumulated());
  const auto expect_near = [](const TensorView& a, const TensorView& b,
                              const char* what) {
    EXPECT_LT(distance(doubles<T>(a), doubles<T>(b)), 1e-2) << what;
  };
  expect_near(x.o(), y.o(), "o");
  expect_near(x.dq(), y.dq(), "dq");
  expect_near(x.dk(), y.dk(), "dk");
  expect_near(x.dv(), y.dv(), "dv");
  EXPECT_FALSE(same_bits(x.d_fused.view(), y.d_fused.view())) << "one computed both";
}

// Backward in several runs: the scores of all sequences exceed what it holds at once.
TYPED_TEST(AttentionCudnn, LongSequencesInTurns) {
  using T = TypeParam;
  if (const std::string why = this->no_backward(); !why.empty()) GTEST_SKIP() << why;
  const auto shape = attention_shape(2, 5120, 64, 16, [] {
    std::vector<std::int32_t> heads(16);
    for (std::size_t h = 0; h < heads.size(); ++h) heads[h] = static_cast<int>(h);
    return heads;
  }());
  AttentionCase<T> x(shape, 1, aligned), y(shape, 1, aligned);
  const auto compute = [](AttentionCase<T>& c, AttentionLibrary library) {
    const Choose chosen(library);
    c.forward();
    c.backward();
  };
  compute(x, AttentionLibrary::cudnn);
  compute(y, AttentionLibrary::own);
  for (const std::int64_t first : {std::int64_t{0}, shape.sequence}) {
    const auto part = [&](const TensorView& view) {
      return doubles<T>(view.rows(first, shape.sequence));
    };
    EXPECT_LT(distance(part(x.dq()), part(y.dq())), 1e-2) << first;
    EXPECT_LT(distance(part(x.dk()), part(y.dk())), 1e-2) << first;
    EXPECT_LT(distance(part(x.dv()), part(y.dv())), 1e-2) << first;
  }
}

TYPED_TEST(AttentionCudnn, BitsAreTheSame) {
  using T = TypeParam;
  if (const std::string why = this->no_backward(); !why.empty()) GTEST_SKIP() << why;
  const Choose cudnn(AttentionLibrary::cudnn);
  const auto shape = attention_shape(3, 500, 64, 2, {0, 0, 0, 0, 1, 1, 1, 1});
  AttentionCase<T> x(shape, 1, aligned);
  x.forward();
  x.backward();
  for (int i = 0; i < 3; ++i) {
    AttentionCase<T> y(shape, 1, aligned);
    y.forward();
    y.backward();
    ASSERT_TRUE(same_bits(x.outputs.view(), y.outputs.view()));
    ASSERT_TRUE(same_bits(x.lse(), y.lse()));
    ASSERT_TRUE(same_bits(x.d_fused.view(), y.d_fused.view()));
  }
}

class AttentionChoice : public testing::Test {
 protected:
  void SetUp() override {
    if (!test_device().is_cuda()) GTEST_SKIP() << "the test's device is the host";
  }
};

template <class T>
void expect_refused(AttentionCase<T>& x, const std::string& word) {
  const Choose cudnn(AttentionLibrary::cudnn);
  for (const bool backward : {false, true}) {
    try {
      backward ? x.backward() : x.forward();
      ADD_FAILURE() << x.describe() << " was not refused";
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::resources);
      const std::string message = error.what();
      for (const std::string& part :
           {format("sequence {}", x.shape.sequence), format("heads {}", x.shape.heads),
            format("head_width {}", x.shape.head_width), word})
        EXPECT_NE(message.find(part), std::string::npos) << part << ": " << message;
    }
  }
}

TEST_F(AttentionChoice, RefusalsNameTheShapeAndTheReason) {
  const bool built = kernels::cudnn_is_built();
  const auto reason = [&](const char* with) { return built ? with : "without cuDNN"; };
  AttentionCase<float> wide(attention_shape(1, 33, 64, 1, {0, 0}), 1, aligned);
  expect_refused(wide, reason("bf16"));
  AttentionCase<BFloat16> cut(attention_shape(1, 40, 64, 1, {0, 0}), 1, aligned);
  cut.cut_documents(7);
  expect_refused(cut, reason("documents"));
  AttentionCase<BFloat16> unaligned(attention_shape(1, 40, 64, 1, {0, 0}), 1, 3);
  expect_refused(unaligned, reason("16 bytes"));
  AttentionCase<BFloat16> crossed(attention_shape(1, 40, 64, 2, {1, 0}), 1, aligned);
  expect_refused(crossed, reason("in order"));
}

// What the plan counts of cuDNN's backward: scores where sums have an order, dq in f32
// where they have none, which is also the only form after compute capability 9.
TEST(AttentionMemory, OfBothFormsOfBackward) {
  if (!kernels::cudnn_is_built()) GTEST_SKIP() << "cuDNN is " << kernels::cudnn_version();
  constexpr std::int64_t B = 3, S = 500, H = 4, K = 64;
  const auto shape = attention_shape(B, S, K, H, {0, 1, 2, 3});
  const auto meta = [](DType type, std::int64_t columns) {
    return TensorView(nullptr, type, {B * S, columns}, Device::meta());
  };
  const TensorView rows = meta(DType::bf16, H * K);
  const kernels::cuda::AttentionTensors tensors{
      rows, rows, rows, rows, meta(DType::f32, H), rows, rows, rows, rows};
  const auto grouped = attention_shape(B, S, K, 2, {0, 0, 1, 1});
  const auto bytes_of = [&](const kernels::AttentionShape& of, bool deterministic,
                            int major) {
    const Choose cudnn(AttentionLibrary::cudnn, deterministic);
    return kernels::cuda::cudnn_attention_workspace(of, tensors, major);
  };
  const auto bytes = [&](bool deterministic, int major) {
    return bytes_of(shape, deterministic, major);
  };
  constexpr std::int64_t delta = 24064;  // 4 B H S, a multiple of 256
  EXPECT_EQ(bytes(true, 9), delta + 2 * B * H * 512 * 512);
  EXPECT_EQ(bytes(false, 9), delta + 4 * B * S * H * K);
  EXPECT_EQ(bytes(true, 10), 0) << "own kernels do it";
  EXPECT_EQ(bytes(false, 10), delta + 4 * B * S * H * K);
  constexpr std::int64_t delta_of_one = 6144;  // 4 B S, a multiple of 256
  EXPECT_EQ(bytes_of(attention_shape(B, S, K, 1, {0}), false, 8),
            delta_of_one + 8 * B * S * K)
      << "before compute capability 9 some versions do one head alone";
  for (const bool deterministic : {true, false})
    EXPECT_EQ(bytes_of(grouped, deterministic, 9),
              bytes(deterministic, 9) + 4 * B * S * H * K)
        << "dk and dv of each query head";
}

// Unlike a request for cuDNN, the default leaves to our own kernels what it does not do.
TEST_F(AttentionChoice, AutomaticDoesEverything) {
  ASSERT_EQ(kernels::attention_library(), AttentionLibrary::automatic);
  AttentionCase<BFloat16> x(attention_shape(1, 40, 64, 2, {1, 0}), 1, aligned);
  x.cut_documents(7);
  expect_agreement(x, bounds_of(x));
}

}  // namespace
}  // namespace trireme::test
