// Infinities, NaNs, zeros, denormals and huge numbers in each class of numbers that the
// store keeps or sends, on one of two ranks: what docs/precision.md says of them, on
// every rank. (In operands of products: fp8_values_test.)
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <optional>

#include "kernels/fp8.hpp"
#include "optim/parameter_store.hpp"
#include "support/world.hpp"

namespace trireme::test {
namespace {

using optim::ParameterStore;
using optim::Sharding;

constexpr float inf = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

// How the ranks share the weights.
struct Split {
  const char* name;
  Sharding sharding;
  bool tensor;  // over the tensor axis, else over data
  // Ranks whose gradients are summed.
  int copies() const { return tensor ? 1 : world().size(); }
};
constexpr Split splits[] = {{"NO_SHARD", Sharding::none, false},
                            {"ZERO1", Sharding::optimizer, false},
                            {"FULL_SHARD", Sharding::weights, false},
                            {"tensor", Sharding::none, true}};

struct Setting {
  std::string name;
  Recipe recipe;
  bool feedback = false;
  DType operator[](TensorClass what) const { return recipe[what].type; }
};

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

using Numbers = std::map<std::int64_t, double>;  // by place in the whole tensor

bool is_finite(const Numbers& numbers) {
  for (const auto& [at, x] : numbers)
    if (!std::isfinite(x)) return false;
  return true;
}

// NaNs equal NaNs.
bool same_numbers(const Numbers& a, const Numbers& b) {
  if (a.size() != b.size()) return false;
  for (const auto& [at, x] : a)
    if (!(b.at(at) == x || (std::isnan(x) && std::isnan(b.at(at))))) return false;
  return true;
}

std::vector<double> in_double(const TensorView& x) {
  std::vector<double> out;
  for (std::int64_t i = 0; i < x.elements(); ++i) {
    if (is_fp8(x.dtype())) {
      out.push_back(double{kernels::fp8_decode(
          static_cast<const std::uint8_t*>(x.raw())[i], kernels::Fp8Format::e4m3)});
    } else {
      visit_floating(x.dtype(), [&]<class T>(T) {
        out.push_back(static_cast<double>(static_cast<Accumulator<T>>(x.data<T>()[i])));
      });
    }
  }
  return out;
}

// Two weights of one module, of which each rank has some of w where they are split. "w"
// gets the odd number in its last element, which the last rank has; "u" must never
// notice.
class Store {
 public:
  static constexpr std::int64_t rows = 12, columns = 32, last = rows * columns - 1;

  Store(const Setting& setting, const Split& split)
      : mesh_(world(),
              split.tensor ? comm::MeshShape{1, 1, 1, world().size()}
                           : comm::MeshShape{1, world().size(), 1, 1},
              {.shard = split.sharding == Sharding::none ? 1 : world().size()}) {
    parts_ = split.tensor ? world().size() : 1;
    for (Param* param : {&w_, &u_}) {
      param->name = param == &w_ ? "w" : "u";
      const std::int64_t all = param == &w_ ? rows : rows / 3;
      param->shape = {all / parts_, columns};
      param->slabs = {
          {param->name, {all, columns}, {0, 0}, {first_row(*param), 0}, param->shape}};
      param->initializer = {Initializer::Kind::normal, 0.02};
    }
    optim::StoreConfig config;
    config.recipe = setting.recipe;
    config.sharding = split.sharding;
    config.error_feedback = setting.feedback;
    store_.emplace(std::vector<ParamModule>{{"m", {&w_, &u_}}}, config, mesh_,
                   Device::host());
    store_->initialize(1);
  }

  // A microbatch's gradients, those of w made odd by `spoil` on the last rank alone or on
  // all; up to their norm.
  using Spoil = std::function<void(std::int64_t at, float& x)>;
  double add(int step, const Spoil& spoil = {}, bool everywhere = true) {
    store_->begin_step(1);
    store_->fetch(0, Direction::forward);
    store_->open_gradients(0);
    for (Param* param : {&w_, &u_}) {
      const auto x = param->gradient.span<float>();
      for (std::size_t i = 0; i < x.size(); ++i) {
        const auto at = first_row(*param) * columns + static_cast<std::int64_t>(i);
        const float rank = parts_ > 1 ? 0.0f : static_cast<float>(world().rank());
        float g = 1e-3f * std::sin(0.7f * static_cast<float>(at) +
                                   static_cast<float>(step) + rank);
        const bool here = everywhere || world().rank() + 1 == world().size();
        if (spoil && param == &w_ && here) spoil(at, g);
        x[i] += g;
      }
      store_->ready(*param);
    }
    store_->close_gradients(0);
    store_->release(0);
    store_->finish_gradients();
    return store_->gradient_norm();
  }
  void skip() { store_->clear_gradients(); }
  void update(int step, double factor = 1) {
    store_->update(optimizer_, 1e-3, factor, step);
  }

  // What this rank has of a tensor's gradient, or of a section of the state, with scales.
  Numbers gradient(const char* tensor) {
    return numbers(store_->gradient_boxes(), "gradient", tensor);
  }
  Numbers state(const std::string& section, const char* tensor) const {
    return numbers(store_->state_boxes(), section, tensor);
  }
  // All of the state on this rank, codes and scales as they are.
  std::vector<double> all() const {
    std::vector<double> out;
    for (const auto& box : store_->state_boxes())
      for (const double x : in_double(box.data))
        out.push_back(std::isnan(x) ? -1e300 : x);
    return out;
  }
  // What modules compute with.
  Numbers used(const char* tensor) {
    store_->fetch(0, Direction::forward);
    const Param& param = tensor[0] == 'w' ? w_ : u_;
    Numbers out;
    std::int64_t at = first_row(param) * columns;
    for (const double x : in_double(param.value)) out[at++] = x;
    store_->release(0);
    return out;
  }
  // The last element of w in a section of the state, where this rank has it.
  std::optional<TensorView> last_of(const std::string& section) {
    for (const auto& box : store_->state_boxes()) {
      if (box.section != section || box.slab->tensor != "w") continue;
      const std::int64_t first = box.global_begin[0] * columns + box.global_begin[1];
      if (first + box.data.elements() != last + 1) continue;
      const std::int64_t n = box.data.elements();
      return box.data.reshape({n}).rows(n - 1, 1);
    }
    return {};
  }
  void refresh() { store_->refresh_weights(); }

 private:
  std::int64_t first_row(const Param& param) const {
    return parts_ > 1 ? param.shape[0] * world().rank() : 0;
  }
  static Numbers numbers(const std::vector<optim::StoredBox>& boxes,
                         const std::string& section, const std::string& tensor) {
    double scale = 1;
    Numbers out;
    for (const auto& box : boxes)
      if (box.section == section + "_scale" && box.slab->tensor == tensor)
        scale = in_double(box.data)[0];
    for (const auto& box : boxes) {
      if (box.section != section || box.slab->tensor != tensor) continue;
      std::int64_t at = box.global_begin[0] * columns + box.global_begin[1];
      for (const double x : in_double(box.data)) out[at++] = x * scale;
    }
    return out;
  }

  comm::Mesh mesh_;
  Param w_, u_;
  std::int64_t parts_ = 1;  // over the tensor axis
  std::optional<ParameterStore> store_;
  optim::OptimizerConfig optimizer_;
};

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
    Store clean(setting, split), odd(setting, split);
    for (Store* store : {&clean, &odd}) {
      store->add(1);
      store->update(1);
    }
    const auto before = odd.all();
    clean.add(2);
    const Numbers want = clean.gradient("w");
    for (const float bad : {nan, inf, -inf}) {
      const double norm = odd.add(
          2, [&](std::int64_t at, float& x) { x = at == Store::last ? bad : x; }, false);
      EXPECT_FALSE(std::isfinite(norm)) << bad;
      EXPECT_TRUE(on_any_rank(!is_finite(odd.gradient("w")))) << bad;
      EXPECT_TRUE(is_finite(odd.gradient("u"))) << bad;
      odd.skip();
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
    Store clean(setting, split), odd(setting, split);
    clean.add(1);
    const Numbers want_u = clean.gradient("u"), want_w = clean.gradient("w");
    for (const double value : {0.0, 1e-40, 1e30, 3e38}) {
      for (const bool all : {false, true}) {
        SCOPED_TRACE(format("{} in {}", value, all ? "all" : "one"));
        const double norm = odd.add(1, [&](std::int64_t at, float& x) {
          if (all || at == Store::last) x = static_cast<float>(value);
        });
        EXPECT_TRUE(is_everyones(norm)) << norm;
        const double want =
            value > 1 ? huge_sum(setting, split, value) : split.copies() * value;
        EXPECT_EQ(std::isfinite(norm), std::isfinite(want)) << norm;
        EXPECT_TRUE(same_numbers(odd.gradient("u"), want_u));
        for (const auto& [at, x] : odd.gradient("w")) {
          if (!std::isfinite(want)) break;
          EXPECT_TRUE(std::isfinite(x)) << at;
          if (!all && at != Store::last) continue;
          // A denormal is below half of E4M3's least number, and some units of bf16.
          const double limit = value > 1 ? roundings * (fp8 ? 0x1p-4 : 0x1p-8) * want
                                         : (fp8 ? 0.0 : roundings * 0x1p-133);
          EXPECT_LE(std::abs(x - (fp8 && value < 1 ? 0.0 : want)), limit) << at;
        }
        odd.skip();
        odd.add(1);
        EXPECT_TRUE(same_numbers(odd.gradient("w"), want_w));
        odd.skip();
      }
    }
  });
}

// A huge gradient that is clipped is one step like others, also for the scales of
// moments: the next ones are finite.
TEST(StoredValues, HugeGradientsThatAreClipped) {
  for_each(gradient_settings(), [](const Setting& setting, const Split& split) {
    Store odd(setting, split);
    for (int step = 1; step <= 3; ++step) {
      const double norm = odd.add(step, [&](std::int64_t at, float& x) {
        if (step == 2 && at == Store::last) x = 1e30f;
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
        Store clean(setting, split), odd(setting, split);
        for (Store* store : {&clean, &odd}) {
          store->add(1);
          store->update(1);
        }
        const auto one = odd.last_of(section);
        if (on_any_rank(one && !put(*one, what))) continue;
        for (Store* store : {&clean, &odd}) {
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
          if (at != Store::last) {
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
          if (at == Store::last) continue;
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
    Store odd(setting, split);
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
        if (at == Store::last && finite) {
          const double unit = 0x1p-8 + (fp8 ? 0x1p-4 : 0);  // master and kept
          EXPECT_LE(std::abs(x - double{value}), std::abs(double{value}) * unit + 1e-40);
        } else if (at == Store::last || fp8) {
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
