// HYBRID_SHARD: shards are summed over the replicas while backward goes on, unit by unit.
// SPDX-License-Identifier: Apache-2.0
// What has begun is counted on the group of the replicas: no test looks at a clock.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "engine/engine.hpp"
#include "optim/parameter_store.hpp"
#include "support/world.hpp"

namespace trireme {
namespace {

using comm::Collective;
using optim::ParameterStore;
using optim::Sharding;
using schedule::ScheduleKind;

// Two replicas of a model that the other ranks share out.
int shard_ranks() { return test::world().size() / 2; }

std::int64_t begun(const comm::Mesh& mesh) {
  return mesh.copies().traffic(Collective::all_reduce).calls;
}

struct Modules {
  const char* recipe = "fp32";
  Sharding sharding = Sharding::weights;
  bool tied = false;  // the last module uses the first one's table
  std::int64_t wrap_parameters = 0;
};

// Six modules of one matrix each, whose gradients are small integers: sums are exact.
class SixModules {
 public:
  static constexpr int modules = 6, microbatches = 2;
  static constexpr std::int64_t elements = 12 * 32;

  explicit SixModules(const Modules& with)
      : tied_(with.tied),
        mesh_(test::world(), {.data = test::world().size()}, {.shard = shard_ranks()}),
        params_(modules) {
    std::vector<ParamModule> all;
    for (int m = 0; m < modules; ++m) {
      Param& param = params_[static_cast<std::size_t>(m)];
      param.name = "w" + std::to_string(m);
      param.shape = {12, 32};
      param.boxes = {{param.name, param.shape, {0, 0}, {0, 0}, param.shape}};
      all.push_back({"module " + std::to_string(m), {&param}});
    }
    if (tied_) {
      params_[0].contributions = 2;
      all.back().params.push_back(&params_[0]);
    }
    optim::StoreConfig config;
    config.recipe = recipe_named(with.recipe);
    config.sharding = with.sharding;
    config.wrap_parameters = with.wrap_parameters;
    config.overwrites = true;
    store_.emplace(all, config, mesh_, Device::host());
    store_->initialize(1);
  }

  // How many sums over replicas have begun as each module closes, the last one first, in
  // each microbatch; then how many there were in the end.
  std::vector<std::int64_t> step() {
    std::vector<std::int64_t> counts;
    const std::int64_t before = begun(mesh_);
    store_->begin_step(microbatches);
    for (int microbatch = 0; microbatch < microbatches; ++microbatch)
      for (int m = modules; m-- > 0;) {
        store_->open_gradients(m);
        add(m, m, microbatch);
        if (tied_ && m + 1 == modules) add(0, m, microbatch);
        store_->close_gradients(m);
        counts.push_back(begun(mesh_) - before);
      }
    store_->finish_gradients();
    counts.push_back(begun(mesh_) - before);
    return counts;
  }

  std::int64_t flats() const { return std::ssize(store_->flats()); }

  // This rank's boxes are the sums over all ranks and microbatches.
  void expect_sums() {
    std::int64_t seen = 0;
    for (const optim::StateBox& box : store_->gradient_boxes()) {
      const int m = box.named->tensor[1] - '0';
      ASSERT_EQ(box.data.dtype(), DType::f32);
      for (std::int64_t i = 0; i < box.data.elements(); ++i, ++seen)
        ASSERT_EQ(box.data.data<float>()[i],
                  whole(m, box.global_begin[0] * 32 + box.global_begin[1] + i))
            << box.named->tensor << ", " << i;
    }
    EXPECT_EQ(seen, modules * elements / shard_ranks());
  }

 private:
  static int part(int rank, int module, int microbatch, std::int64_t i) {
    return static_cast<int>((i + 3 * rank + 2 * module + microbatch) % 5);
  }
  float whole(int param, std::int64_t i) const {
    int sum = 0;
    for (int rank = 0; rank < test::world().size(); ++rank)
      for (int microbatch = 0; microbatch < microbatches; ++microbatch) {
        sum += part(rank, param, microbatch, i);
        if (tied_ && param == 0) sum += part(rank, modules - 1, microbatch, i);
      }
    return static_cast<float>(sum);
  }
  void add(int param, int module, int microbatch) {
    Param& to = params_[static_cast<std::size_t>(param)];
    float* const x = to.gradient.data<float>();
    if (std::exchange(to.stale_gradient, false)) std::fill_n(x, elements, 0.0f);
    for (std::int64_t i = 0; i < elements; ++i)
      x[i] += static_cast<float>(part(test::world().rank(), module, microbatch, i));
    store_->ready(to);
  }

  bool tied_;
  comm::Mesh mesh_;
  std::vector<Param> params_;
  std::optional<ParameterStore> store_;
};

using Counts = std::vector<std::int64_t>;

// A unit's sum begins in the last microbatch, when its buffer is needed for the unit
// after the next: the reduction in the shard group had the time of the unit between.
TEST(ReplicaSums, BeginUnitByUnitInTheLastMicrobatch) {
  for (const char* recipe : {"fp32", "bf16", "bf16_fp32_sum"}) {
    for (const Sharding sharding : {Sharding::gradients, Sharding::weights}) {
      SCOPED_TRACE(format("{} {}", recipe, static_cast<int>(sharding)));
      SixModules six({.recipe = recipe, .sharding = sharding});
      for (int step = 0; step < 2; ++step) {
        EXPECT_EQ(six.step(), (Counts{0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 6}));
        six.expect_sums();
      }
    }
  }
}

// What is sent or kept in another type goes at the end, a flat parameter at a time.
TEST(ReplicaSums, OfOtherTypesBeginAtTheEnd) {
  SixModules six({.recipe = "bf16_pure"});
  EXPECT_EQ(six.step(), (Counts{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 6}));
  six.expect_sums();
}

// A table waits for its second module, a unit of two modules for both.
TEST(ReplicaSums, WaitForTheLastContribution) {
  SixModules tied({.tied = true});
  const Counts of_tied = tied.step();
  EXPECT_EQ(of_tied[5], 0);  // the first microbatch
  EXPECT_EQ(of_tied.back(), 6);
  EXPECT_EQ(of_tied[10], 2);  // three buffers: of modules 5 and 4
  EXPECT_EQ(of_tied[11], 3);
  tied.expect_sums();
  SixModules pairs({.wrap_parameters = 2 * SixModules::elements});
  ASSERT_EQ(pairs.flats(), 3);
  EXPECT_EQ(pairs.step(), (Counts{0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 2, 3}));
  pairs.expect_sums();
}

// Counts what has begun when the last backward is done.
class AtTheEndOfBackward : public engine::StepObserver {
 public:
  explicit AtTheEndOfBackward(const comm::Mesh& mesh) : mesh_(mesh) {}
  void enter(engine::StepPhase phase, std::int64_t) override {
    if (phase == engine::StepPhase::compute) before_ = begun(mesh_);
    if (phase == engine::StepPhase::reduce) early = begun(mesh_) - before_;
    if (phase == engine::StepPhase::update) all = begun(mesh_) - before_;
  }
  std::int64_t early = 0, all = 0;

 private:
  const comm::Mesh& mesh_;
  std::int64_t before_ = 0;
};

void expect_early_in(ScheduleKind kind, bool tied) {
  const bool pipeline = test::world().size() >= 4;
  config::RunConfig config;
  config.model = {.architecture = model::Architecture::llama,
                  .layers = 8,
                  .hidden = 16,
                  .heads = 2,
                  .kv_heads = 2,
                  .feed_forward = 12,
                  .vocabulary = 19,
                  .sequence = 8};
  config.model.tie_embeddings = tied;
  config.batch = {24, 2};
  config.parallel.mesh = {.pipeline = pipeline ? 2 : 1, .data = 2};
  config.parallel.sharding = Sharding::weights;
  config.parallel.schedule = kind;
  config.parallel.virtual_stages =
      kind == ScheduleKind::interleaved || schedule::is_v_shaped(kind) ? 2 : 1;
  if (!pipeline) config.parallel.virtual_stages = 1;
  comm::Mesh mesh(test::world(), config.parallel.mesh, {.shard = 1});
  config.parallel.folding.shard = 1;
  engine::Engine engine(config, mesh, Device::host());
  engine.store().initialize(3);
  const Buffer ids(Device::host(), DType::i32,
                   {config.batch.micro * config.model.sequence}, MemoryClass::data,
                   "ids");
  engine::Batch batch{.step = 1, .valid_tokens = 100};
  batch.inputs.assign(static_cast<std::size_t>(config.microbatches()), ids.view());
  batch.targets = batch.inputs;
  AtTheEndOfBackward observer(mesh);
  engine.train_step(batch, observer);
  const std::int64_t flats = std::ssize(engine.store().flats());
  EXPECT_EQ(observer.all, flats);
  // All but those of the last buffers, of which a tied table on one rank takes a third.
  EXPECT_GE(observer.early, flats - 3);
  EXPECT_LT(observer.early, flats);
}

TEST(ReplicaSums, BeginBeforeBackwardEnds) {
  using enum ScheduleKind;
  for (const bool tied : {false, true}) {
    if (test::world().size() == 2) {
      expect_early_in(one_f_one_b, tied);
      continue;
    }
    for (const auto kind : {gpipe, one_f_one_b, interleaved, zb_h1, zb_v, dualpipe_v}) {
      SCOPED_TRACE(format("{}{}", schedule::name_of(kind), tied ? " tied" : ""));
      expect_early_in(kind, tied);
    }
  }
}

}  // namespace
}  // namespace trireme
