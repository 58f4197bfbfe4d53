// OwnGradients: hashes of gradients, and the comparison of two runs.
// SPDX-License-Identifier: Apache-2.0
#include "engine/own_gradients.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/dtype.hpp"
#include "base/error.hpp"
#include "io/digest.hpp"

namespace trireme::engine {
namespace {

// Gradients lie densely in their memory.
std::uint64_t bits_of(const TensorView& gradient) {
  io::Digest digest;
  digest.add(gradient.raw(),
             static_cast<std::size_t>(gradient.elements()) * size_of(gradient.dtype()));
  return io::first_half(digest.text());
}

bool same(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

// The first tensor of which the runs have other bits.
std::string first_other(const std::vector<TensorPrint>& first,
                        const std::vector<TensorPrint>& second) {
  require(first.size() == second.size(), "two runs of a step made {} and {} gradients",
          first.size(), second.size());
  const auto [one, other] =
      std::ranges::mismatch(first, second, {}, &TensorPrint::bits, &TensorPrint::bits);
  return one == first.end() ? std::string() : one->tensor;
}

// Of the first number: it becomes a very large or a very small one.
void flip_exponent(const TensorView& gradient) {
  auto* const bytes = static_cast<unsigned char*>(gradient.raw());
  bytes[size_of(gradient.dtype()) - 1] ^= 0x40;
}

}  // namespace

void OwnGradients::begin(bool looks) {
  looks_ = looks;
  prints_.clear();
  places_.clear();
}

void OwnGradients::ready(Param& param) {
  if (flips_ && param.gradient.elements() > 0) {
    flips_ = false;
    flip_exponent(param.gradient);
  }
  if (looks_) {
    const auto [place, fresh] = places_.try_emplace(&param, prints_.size());
    if (fresh)
      prints_.push_back({param.boxes.empty() ? param.name : param.boxes.front().tensor});
    std::uint64_t& bits = prints_[place->second].bits;
    bits = std::rotl(bits, 1) ^ bits_of(param.gradient);
  }
  others_.ready(param);
}

StepPrint print_of(const StepTotals::Outcome& mine, const OwnGradients& own,
                   optim::ParameterStore& store) {
  StepPrint print{mine.loss, mine.squares, own.prints()};
  if (store.config().low_precision_sums()) return print;
  for (const optim::StateBox& box : store.gradient_boxes())
    print.sums.push_back({box.named->tensor, bits_of(box.data)});
  return print;
}

StepDifference difference(const StepPrint& first, const StepPrint& second) {
  StepDifference out{.loss = !same(first.loss, second.loss),
                     .own = first_other(first.own, second.own),
                     .sums = first_other(first.sums, second.sums),
                     .compared_own = !first.own.empty()};
  if (out.sums.empty() && !same(first.squares, second.squares)) out.sums = "all tensors";
  return out;
}

}  // namespace trireme::engine
