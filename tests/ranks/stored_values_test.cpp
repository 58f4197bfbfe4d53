// Infinities, NaNs, zeros, denormals and huge numbers in what the store keeps or sends.
// SPDX-License-Identifier: Apache-2.0
// They are on one of two ranks, and on every rank happens what docs/precision.md says.
// (In operands of products: fp8_values_test.)
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ranks/two_weights.hpp"

namespace trireme::test {
namespace {

constexpr float inf = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

std::vector<Setting> settings(std::initializer_list<const char*> names) {
  std::vector<Setting> all;
  for (const char* name : names) all.push_back({name, recipe_named(name), false});
  return all;
}

// Whole gradients in fp32, rounded on the wire alone.
Setting sent_in(DType wire, bool feedback) {
  Setting setting{format("bf16, sent in {}{}", name_of(wire), feedback ? "+" : ""),
                  recipe_named("bf16"), feedback};
  setting.recipe[TensorClass::gradient_traffic] = {
      wire, is_fp8(wire) ? Scaling::current : Scaling::none};
  return setting;
}

// Whether all ranks have the same number, or all one that is not finite.
bool is_everyones(double x) {
  const double mine = std::isfinite(x) ? x : -1;
  return world().max(mine) == mine && world().max(-mine) == -mine;
}
bool on_any_rank(bool here) { return world().max(here ? 1 : 0) > 0; }

// Calls body(setting, split) for each pair.
template <class Body>
void for_each(const std::vector<Setting>& all, const Body& body) {
  for (const Setting& setting : all) {
    for (const Split& split : splits) {
      SCOPED_TRACE(setting.name + " " + split.name);
      body(setting, split);
      if (on_any_rank(testing::Test::HasFailure())) return;
    }
  }
}

std::vector<Setting> gradient_settings() {
  auto all = settings({"bf16", "bf16_pure", "bf16_fp32_sum", "bf16_no_sum", "ms_amp_o1",
                       "ms_amp_o3", "fp8_lm", "deepseek_v3", "nanotron_fp8"});
  for (const DType wire : {DType::bf16, DType::e4m3})
    for (const bool feedback : {false, true}) all.push_back(sent_in(wire, feedback));
  return all;
}

// Gradients as they are made, kept, summed and sent. One number that is not finite, on
// one rank: no rank has a finite norm, and a skipped step leaves no trace, neither in the
// state nor in the scales of the next gradients.
TEST(StoredValues, GradientsThatAreNotFinite) {
  for_each(gradient_settings(), [](const Setting& setting, const Split& split) {
    TwoWeights clean(setting, split), odd(setting, split);
    for (TwoWeights* store : {&clean, &odd}) {
      store->add(1);
      store->update(1);
    }
    const auto before = odd.all();
    clean.add(2);
    const Numbers want = clean.gradient("w");
    for (const float bad : {nan, inf, -inf}) {
      const double norm = odd.add(
          2, [&](std::int64_t at, float& x) { x = at == TwoWeights::last ? bad : x; },
          false);
      EXPECT_FALSE(std::isfinite(norm)) << bad;
      EXPECT_TRUE(on_any_rank(!is_finite(odd.gradient("w")))) << bad;
      EXPECT_TRUE(is_finite(odd.gradient("u"))) << bad;
      EXPECT_EQ(odd.all(), before) << bad;
    }
    odd.add(2);
    EXPECT_TRUE(same_numbers(odd.gradient("w"), want));
    if (setting.feedback) return;  // u carries over what the skipped step has rounded
    clean.update(2);
    odd.update(2);
    EXPECT_EQ(odd.all(), clean.all());
  });
}

// Roundings of a gradient on its way, each by half a unit at most, 2^-4 of the number in
// E4M3 and 2^-8 in bf16: as it is made, summed, and twice on the wire.
constexpr double roundings = 4;

bool goes_through_fp8(const Setting& setting, const Split& split) {
  return is_fp8(setting[TensorClass::gradient]) ||
         is_fp8(setting[TensorClass::gradient_sum]) ||
         (split.copies() > 1 && is_fp8(setting[TensorClass::gradient_traffic]));
}

// What is beyond the range of a scale, 2^100 times 448, saturates in FP8, and so does a
// sum that is kept so; elsewhere the sum of two such numbers overflows.
double huge_sum(const Setting& setting, const Split& split, double value) {
  if (!goes_through_fp8(setting, split))
    return static_cast<double>(static_cast<float>(split.copies() * value));
  constexpr double most = 448 * 0x1p100;
  const double sum = split.copies() * std::min(value, most);
  return is_fp8(setting[TensorClass::gradient_sum]) ? std::min(sum, most) : sum;
}

// Finite numbers, one in a tensor or all of it: no NaN comes of them, other tensors have
// what they would have, and so has the next gradient.
TEST(StoredValues, GradientsThatAreOdd) {
  for_each(gradient_settings(), [](const Setting& setting, const Split& split) {
    if (setting.feedback) return;  // the next gradient holds what this one has lost
    const bool fp8 = goes_through_fp8(setting, split);
    TwoWeights clean(setting, split), odd(setting, split);
    clean.add(1);
    const Numbers want_u = clean.gradient("u"), want_w = clean.gradient("w");
    for (const double value : {0.0, 1e-40, 1e30, 3e38}) {
      for (const bool all : {false, true}) {
        SCOPED_TRACE(format("{} in {}", value, all ? "all" : "one"));
        const double norm = odd.add(1, [&](std::int64_t at, float& x) {
          if (all || at == TwoWeights::last) x = static_cast<float>(value);
        });
        EXPECT_TRUE(is_everyones(norm)) << norm;
        const double want =
            value > 1 ? huge_sum(setting, split, value) : split.copies() * value;
        EXPECT_EQ(std::isfinite(norm), std::isfinite(want)) << norm;
        EXPECT_TRUE(same_numbers(odd.gradient("u"), want_u));
        for (const auto& [at, x] : odd.gradient("w")) {
          if (!std::isfinite(want)) break;
          EXPECT_TRUE(std::isfinite(x)) << at;
          if (!all && at != TwoWeights::last) continue;
          // A denormal is below half of E4M3's least number, and some units of bf16.
          const double limit = value > 1 ? roundings * (fp8 ? 0x1p-4 : 0x1p-8) * want
                                         : (fp8 ? 0.0 : roundings * 0x1p-133);
          EXPECT_LE(std::abs(x - (fp8 && value < 1 ? 0.0 : want)), limit) << at;
        }
        odd.add(1);
        EXPECT_TRUE(same_numbers(odd.gradient("w"), want_w));
      }
    }
  });
}

// A huge gradient that is clipped is one step like others, also for the scales of
// moments: the next ones are finite.
TEST(StoredValues, HugeGradientsThatAreClipped) {
  for_each(gradient_settings(), [](const Setting& setting, const Split& split) {
    TwoWeights odd(setting, split);
    for (int step = 1; step <= 3; ++step) {
      const double norm = odd.add(step, [&](std::int64_t at, float& x) {
        if (step == 2 && at == TwoWeights::last) x = 1e30f;
      });
      ASSERT_TRUE(std::isfinite(norm)) << step;
      odd.update(step, norm > 1 ? 1 / norm : 1);
      for (const char* tensor : {"w", "u"}) EXPECT_TRUE(is_finite(odd.used(tensor)));
      for (const double x : odd.all()) ASSERT_TRUE(std::isfinite(x) && x > -1e300);
    }
  });
}

enum class Odd : std::uint8_t { nan, infinity, zero, least, most };
constexpr Odd odd_numbers[] = {Odd::nan, Odd::infinity, Odd::zero, Odd::least, Odd::most};

// Of the number's own type. False if it has no such number.
bool put(const TensorView& one, Odd what) {
  if (is_fp8(one.dtype())) {
    constexpr std::uint8_t codes[] = {0x7f, 0, 0, 1, 0x7e};
    if (what == Odd::infinity) return false;
    *static_cast<std::uint8_t*>(one.raw()) = codes[static_cast<int>(what)];
    return true;
  }
  const bool half = one.dtype() == DType::f16;
  const float values[] = {nan, inf, 0, half ? 0x1p-24f : 0x1p-133f,
                          half ? 65504.0f : 0x1.fep127f};
  visit_floating(one.dtype(),
                 [&]<class T>(T) { *one.data<T>() = T(values[static_cast<int>(what)]); });
  return true;
}

// What an odd number in the memory of a moment makes of the weight at the next update.
//   NaN: NaN, in the weight and the moment: the next loss tells.
//   infinity: of a first moment, no finite weight; of a second, the weight stands still
//             as it does in fp32.
//   largest: finite where the type has a scale; else the step may overflow.
// Other weights and their moments are what they would be, at the same scale; only FP8
// weights become NaN together.
TEST(StoredValues, Moments) {
  const auto all = settings({"bf16", "bf16_pure", "ms_amp_o2", "ms_amp_o3", "fp8_lm",
                             "deepseek_v3", "nanotron_fp8"});
  for_each(all, [](const Setting& setting, const Split& split) {
    for (const TensorClass moment : {TensorClass::moment1, TensorClass::moment2}) {
      const bool first = moment == TensorClass::moment1;
      const std::string section = first ? "optimizer/moment1" : "optimizer/moment2";
      for (const Odd what : odd_numbers) {
        SCOPED_TRACE(format("{} {}", section, static_cast<int>(what)));
        TwoWeights clean(setting, split), odd(setting, split);
        for (TwoWeights* store : {&clean, &odd}) {
          store->add(1);
          store->update(1);
        }
        const auto one = odd.last_of(section);
        if (on_any_rank(one && !put(*one, what))) continue;
        for (TwoWeights* store : {&clean, &odd}) {
          store->add(2);
          store->update(2);
        }
        EXPECT_TRUE(same_numbers(odd.used("u"), clean.used("u")));
        const Numbers used = odd.used("w"), kept = odd.state(section, "w");
        const bool spoilt = on_any_rank(!is_finite(used));
        if (what == Odd::nan || (first && what == Odd::infinity)) {
          EXPECT_TRUE(spoilt);
        } else if (!(first && what == Odd::most) || optim::has_scale(setting[moment])) {
          EXPECT_FALSE(spoilt);
        }
        const Numbers want = clean.state(section, "w"), want_used = clean.used("w");
        for (const auto& [at, x] : kept) {
          if (at != TwoWeights::last) {
            if (what != Odd::most) {
              EXPECT_EQ(x, want.at(at)) << at;
            }
            EXPECT_TRUE(std::isfinite(x)) << at;
          } else if (what == Odd::nan) {
            EXPECT_TRUE(std::isnan(x));
          } else if (what == Odd::infinity) {
            EXPECT_TRUE(std::isinf(x));
          }
        }
        const bool together = spoilt && is_fp8(setting[TensorClass::weight]);
        for (const auto& [at, x] : used) {
          if (at == TwoWeights::last) continue;
          EXPECT_EQ(std::isnan(x), together) << at;
          if (!together && what != Odd::most) {
            EXPECT_EQ(x, want_used.at(at)) << at;
          }
        }
      }
    }
  });
}

// Master weights, what is kept of them for the modules, and what FULL_SHARD gathers. What
// is not finite, or not in the range of the weights' type, is not finite for the modules:
// of FP8 the whole tensor (here one square), on every rank. Once it has gone, nothing of
// it is left.
TEST(StoredValues, Weights) {
  const auto all = settings({"fp16", "bf16", "bf16_pure", "bf16_autocast", "ms_amp_o3",
                             "fp8_lm", "deepseek_v3", "nanotron_fp8"});
  for_each(all, [](const Setting& setting, const Split& split) {
    TwoWeights odd(setting, split);
    const Numbers want_w = odd.used("w"), want_u = odd.used("u");
    const DType master = setting[TensorClass::master],
                kept = setting[TensorClass::weight];
    const bool fp8 = is_fp8(kept);
    for (const float value : {nan, inf, -inf, 0.0f, 1e-40f, 1e30f}) {
      SCOPED_TRACE(value);
      const auto one = odd.last_of("model");
      double before = 0;
      if (one) {
        before = in_double(*one)[0];
        visit_floating(one->dtype(), [&]<class T>(T) { *one->data<T>() = T(value); });
      }
      odd.refresh();
      const bool in_range = master != DType::f16 && kept != DType::f16;
      const bool finite = std::isfinite(value) && (value < 1 || in_range);
      const Numbers used = odd.used("w");
      EXPECT_EQ(on_any_rank(!is_finite(used)), !finite);
      for (const auto& [at, x] : used) {
        if (at == TwoWeights::last && finite) {
          const double unit = 0x1p-8 + (fp8 ? 0x1p-4 : 0);  // master and kept
          EXPECT_LE(std::abs(x - double{value}), std::abs(double{value}) * unit + 1e-40);
        } else if (at == TwoWeights::last || fp8) {
          EXPECT_EQ(std::isfinite(x), finite) << at;
        } else {
          EXPECT_EQ(x, want_w.at(at)) << at;
        }
      }
      EXPECT_TRUE(same_numbers(odd.used("u"), want_u));
      if (one)
        visit_floating(one->dtype(), [&]<class T>(T) { *one->data<T>() = T(before); });
      odd.refresh();
      EXPECT_TRUE(same_numbers(odd.used("w"), want_w));
    }
  });
}

}  // namespace
}  // namespace trireme::test
