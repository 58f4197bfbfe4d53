// Two weights in a store on two ranks, for tests of what the store keeps and sends.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <functional>
#include <map>
#include <optional>

#include "kernels/fp8.hpp"
#include "optim/parameter_store.hpp"
#include "support/world.hpp"

namespace trireme::test {

using optim::ParameterStore;
using optim::Sharding;

// How the ranks share the weights.
struct Split {
  const char* name;
  Sharding sharding;
  bool tensor;  // over the tensor axis, else over data
  // Ranks whose gradients are summed.
  int copies() const { return tensor ? 1 : world().size(); }
};
inline constexpr Split splits[] = {{"NO_SHARD", Sharding::none, false},
                                   {"ZERO1", Sharding::optimizer, false},
                                   {"FULL_SHARD", Sharding::weights, false},
                                   {"tensor", Sharding::none, true}};

struct Setting {
  std::string name;
  Recipe recipe;
  bool feedback = false;
  DType operator[](TensorClass what) const { return recipe[what].type; }
};

using Numbers = std::map<std::int64_t, double>;  // by place in the whole tensor

inline bool is_finite(const Numbers& numbers) {
  for (const auto& [at, x] : numbers)
    if (!std::isfinite(x)) return false;
  return true;
}

// NaNs equal NaNs.
inline bool same_numbers(const Numbers& a, const Numbers& b) {
  if (a.size() != b.size()) return false;
  for (const auto& [at, x] : a)
    if (!(b.at(at) == x || (std::isnan(x) && std::isnan(b.at(at))))) return false;
  return true;
}

inline std::vector<double> in_double(const TensorView& x) {
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
class TwoWeights {
 public:
  static constexpr std::int64_t rows = 12, columns = 32, last = rows * columns - 1;

  TwoWeights(const Setting& setting, const Split& split)
      : mesh_(world(),
              split.tensor ? comm::MeshShape{1, 1, 1, world().size()}
                           : comm::MeshShape{1, world().size(), 1, 1},
              {.shard = split.sharding == Sharding::none ? 1 : world().size()}) {
    parts_ = split.tensor ? world().size() : 1;
    for (Param* param : {&w_, &u_}) {
      param->name = param == &w_ ? "w" : "u";
      const std::int64_t all = param == &w_ ? rows : rows / 3;
      param->shape = {all / parts_, columns};
      param->boxes = {
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
    return std::sqrt(world().sum(store_->gradient_squares()));
  }
  void update(int step, double factor = 1) {
    store_->update(optimizer_,
                   {.learning_rate = 1e-3, .gradient_scale = factor, .update = step});
  }

  // What this rank has of a tensor's gradient, or of a section of the state, with scales.
  Numbers gradient(const char* tensor) {
    return numbers(store_->gradient_boxes(), "gradient", tensor);
  }
  Numbers state(const std::string& section, const char* tensor) {
    return numbers(store_->state_boxes(), section, tensor);
  }
  // All of the state on this rank, codes and scales as they are.
  std::vector<double> all() {
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
      if (box.section != section || box.named->tensor != "w") continue;
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
  static Numbers numbers(const std::vector<optim::StateBox>& boxes,
                         const std::string& section, const std::string& tensor) {
    double scale = 1;
    Numbers out;
    for (const auto& box : boxes)
      if (box.section == section + "_scale" && box.named->tensor == tensor)
        scale = in_double(box.data)[0];
    for (const auto& box : boxes) {
      if (box.section != section || box.named->tensor != tensor) continue;
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

}  // namespace trireme::test
