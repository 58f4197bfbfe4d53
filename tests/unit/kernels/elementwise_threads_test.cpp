// Every row-wise kernel gives the same bits with 1, 2 and 3 threads.
// SPDX-License-Identifier: Apache-2.0
// The number of threads is fixed when a process starts its kernels: each is a child.
#include <sys/wait.h>
#include <unistd.h>

#include <span>

#include "kernels/activation.hpp"
#include "kernels/cross_entropy.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/embedding.hpp"
#include "kernels/norm.hpp"
#include "kernels/rope.hpp"
#include "kernels/runtime/runtime.hpp"
#include "unit/kernels/elementwise_tensors.hpp"

namespace trireme::test {
namespace {

using namespace kernels;  // NOLINT: this file calls all of them

// Large enough that every kernel is shared by three threads, and not divisible by them.
constexpr std::int64_t T = 211, D = 1027, V = 1500;

std::uint64_t digest(const TensorView& view) {
  return hash_name({static_cast<const char*>(view.raw()), view.bytes()});
}

// The bits that the kernels leave behind, one digest each.
std::vector<std::uint64_t> digests_of_all_kernels(DType dtype) {
  Stream stream;
  const DType sums = accumulator_of(dtype);
  const Tensor x = Tensor::normal(dtype, {T, D}, 1),
               dy = Tensor::normal(dtype, {T, D}, 2);
  const Tensor gain = Tensor::normal(dtype, {D}, 3), y(dtype, {T, D});
  const Tensor mean(sums, {T}), rstd(sums, {T}), dgain(sums, {D}), dshift(sums, {D});
  std::vector<std::int32_t> rows;
  for (std::int32_t t = 0; t < T; ++t) rows.push_back(t * 5 % 97);
  const Indices index(rows);
  std::vector<std::uint64_t> out;
  const auto keep = [&](const TensorView& view) { out.push_back(digest(view)); };

  layer_norm(stream, x, gain, gain, 1e-5, y, mean, rstd);
  keep(y);
  layer_norm_backward(stream, dy, x, gain, mean, rstd, dy, y, dgain, dshift);
  keep(y), keep(dgain), keep(dshift);
  rms_norm(stream, x, {gain}, 1e-5, y, rstd);
  keep(y);
  rms_norm_backward(stream, dy, x, {gain}, rstd, {}, y, dgain);
  keep(y), keep(dgain);
  activate(stream, Activation::gelu, x, y);
  keep(y);
  activate_backward(stream, Activation::gelu, dy, x, y);
  keep(y);
  const Tensor wide = Tensor::normal(dtype, {T, 2 * D}, 4), dwide(dtype, {T, 2 * D});
  activate(stream, Activation::swiglu, wide, y);
  keep(y);
  activate_backward(stream, Activation::swiglu, dy, wide, dwide);
  keep(dwide);
  add_column_sums(stream, x, dgain);
  keep(dgain);
  const Tensor table = Tensor::normal(dtype, {90, D}, 5), dtable(sums, {90, D});
  embedding(stream, index, table, 3, kernels::Accumulate::yes, y);
  keep(y);
  embedding_backward(stream, dy, index, 3, dtable);
  keep(dtable);
  const Tensor angles(sums, {97, 2 * 13});
  rope_table(stream, 1e4, angles);
  keep(angles);
  rope(stream, y.view().columns(0, 39 * 26), {39}, index, angles, Direction::forward);
  keep(y);
  const Tensor logits = Tensor::normal(sums, {T, V}, 6), stats(sums, {T, 3});
  cross_entropy_statistics(stream, logits, index, 0, stats);
  keep(stats);
  cross_entropy_gradient(stream, logits, stats, index, 0, 0.1, 0.01, logits);
  keep(logits);
  const Tensor part_sum(dtype, {D});
  sum_parts(stream, x, part_sum);
  keep(part_sum);
  out.push_back(std::bit_cast<std::uint64_t>(sum_of_squares(stream, wide)));
  return out;
}

// The digests that a child process with this many threads finds; empty if it failed.
std::vector<std::uint64_t> digests_with(int thread_count, DType dtype) {
  int ends[2];
  if (::pipe(ends) != 0) return {};
  const pid_t child = ::fork();
  if (child == 0) {
    std::vector<std::uint64_t> digests;
    {
      const Runtime runtime(thread_count);
      if (threads() == thread_count) digests = digests_of_all_kernels(dtype);
    }
    const auto bytes = std::as_bytes(std::span(digests));
    const bool written = ::write(ends[1], bytes.data(), bytes.size()) ==
                         static_cast<ssize_t>(bytes.size());
    ::_exit(written ? 0 : 1);
  }
  ::close(ends[1]);
  std::vector<std::uint64_t> digests;
  for (std::uint64_t d; ::read(ends[0], &d, sizeof d) == sizeof d;) digests.push_back(d);
  ::close(ends[0]);
  int status = 1;
  ::waitpid(child, &status, 0);
  return status == 0 ? digests : std::vector<std::uint64_t>{};
}

class ThreadsTest : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Types, ThreadsTest, every_type, type_name);

TEST_P(ThreadsTest, BitsDoNotDependOnTheNumberOfThreads) {
  const auto one = digests_with(1, GetParam());
  ASSERT_EQ(one.size(), 20u);
  EXPECT_EQ(digests_with(2, GetParam()), one);
  EXPECT_EQ(digests_with(3, GetParam()), one);
}

}  // namespace
}  // namespace trireme::test

// Its own main(): the parent must not start the kernels' threads before it forks.
int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
