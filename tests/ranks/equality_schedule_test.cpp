// Schedules, tied tables, frozen tensors and parameter groups, to the bit.
// SPDX-License-Identifier: Apache-2.0
#include "base/device_memory.hpp"
#include "kernels/elementwise.hpp"
#include "model/stage.hpp"
#include "optim/flat_layout.hpp"
#include "ranks/equality.hpp"
#include "support/device.hpp"

namespace trireme::test {
namespace {

// Words for a pipeline of all ranks, and where it fits for one of two ranks in each
// replica.
std::vector<Words> pipelines() {
  const int n = world().size();
  std::vector<Words> all = {{format("parallel.pipeline={}", n)}};
  if (n == 4) {
    all.push_back({"parallel.pipeline=2"});
    all.push_back({"parallel.pipeline=2", "parallel.sharding_strategy=FULL_SHARD"});
    all.push_back({"parallel.pipeline=2", "parallel.tensor=2", "parallel.sequence=true"});
  }
  return all;
}

struct Named {
  std::string schedule;
  int chunks;
};

std::vector<Named> schedules() {
  return {{"1f1b", 1}, {"zb_h1", 1}, {"interleaved", 2}, {"zb_v", 2}, {"dualpipe_v", 2}};
}

Words schedule_words(const Named& named) {
  return {"parallel.schedule=" + named.schedule,
          format("parallel.virtual_stages={}", named.chunks)};
}

// Every schedule runs the microbatches of a chunk in ascending order, so that each weight
// gradient is the same sum; where the stages are cut does not matter, because no sum goes
// from block to block. Zero-bubble schedules too: kernels that sum over rows (of norms,
// for example) sum a microbatch apart and add it to the gradient once, at once or later.
TEST(EqualitySchedule, EverySchedule) {
  for (const std::string compute : {"fp32", "bf16"}) {
    for (const std::string model : {"llama", "llama-tied", "mixtral"}) {
      if (compute == "bf16" && model != "llama") continue;
      if (is_watched() && compute + model != "fp32mixtral") continue;
      for (const Words& mesh : pipelines()) {
        if (mesh.size() > 2 && (compute != "fp32" || model != "llama")) continue;
        // Numbers of microbatches that do not divide by the ranks of the pipeline: 6 on 4
        // ranks, 3 on 2.
        const char* micro = world().size() == 2 || mesh.size() > 2 ? "4" : "2";
        const Words base =
            mesh + Words{"model.layers=8", std::string("batch.micro=") + micro};
        // Where both ends are on one rank (a V), a tied table has one gradient, to which
        // the head and the embedding add in turn, in the order of the schedule.
        const bool tied = model == "llama-tied";
        const Outcome gpipe =
            train(model, compute, base + Words{"parallel.schedule=gpipe"}, 2);
        for (const Named& named : schedules()) {
          SCOPED_TRACE(
              format("{} {} {} {}", compute, model, mesh.back(), named.schedule));
          const Outcome outcome = train(model, compute, base + schedule_words(named), 2);
          const bool v = named.schedule == "zb_v" || named.schedule == "dualpipe_v";
          if (tied && v) {
            expect_close(outcome.gradients, gpipe.gradients,
                         compute == "fp32" ? 1e-6 : 2e-2);
          } else {
            expect_same_bits(outcome, gpipe);
          }
        }
      }
    }
  }
}

// And all of them have the bits of one rank that runs the same microbatches.
TEST(EqualitySchedule, PipelineIsOneRank) {
  for (const char* compute : {"fp32", "bf16"}) {
    if (is_watched() && std::string(compute) == "fp32") continue;
    const auto config = equality_config("llama", compute, {"model.layers=8"});
    const Outcome one = train_alone(config, 3);
    for (const Named& named : schedules()) {
      SCOPED_TRACE(named.schedule);
      const Words words = {format("parallel.pipeline={}", world().size()),
                           "model.layers=8", "batch.micro=1"};
      const Outcome many = train("llama", compute, words + schedule_words(named));
      expect_same_bits(many.gradients, one.gradients);
      expect_same_bits(many.state, one.state);
    }
  }
}

// What the two ends hold of the tied table, as bytes: weights, moments, and the copy in
// use.
void expect_same_tables(engine::Engine& engine, comm::Mesh& mesh) {
  comm::Group& ends = mesh.embedding_group();
  if (ends.size() == 1) return;
  Stream stream;
  int compared = 0;
  const auto compare = [&](const TensorView& mine, const std::string& what) {
    const Buffer first(Device::host(), mine.dtype(), {mine.elements()},
                       MemoryClass::workspace, "table");
    const TensorView dense = first.view().reshape(mine.shape());
    Stream device(mine.device());
    copy_bytes(device, mine, dense);
    const Buffer own(Device::host(), mine.dtype(), {mine.elements()},
                     MemoryClass::workspace, "table");
    kernels::copy(stream, dense, own.view().reshape(mine.shape()));
    ends.broadcast(stream, first.view(), 0).wait();
    EXPECT_EQ(std::memcmp(own.view().raw(), first.view().raw(), own.bytes()), 0) << what;
    ++compared;
  };
  for (const auto& box : engine.store().state_boxes()) {
    if (box.named->tensor == "model.embed_tokens.weight")
      compare(box.data, std::string(box.section));
  }
  for (const Param* param : engine.store().params()) {
    if (param->in_embedding_group && !param->value.empty())
      compare(param->value, "in use");
  }
  EXPECT_GE(compared, 3);
}

TEST(EqualitySchedule, TiedTablesStayTheSame) {
  std::vector<Words> meshes = pipelines();
  meshes.front().push_back("parallel.schedule=zb_h1");
  if (world().size() == 4)
    meshes.push_back({"parallel.pipeline=2", "parallel.sharding_strategy=ZERO1"});
  for (const Words& words : meshes) {
    SCOPED_TRACE(words.back());
    const auto config = equality_config(
        "llama-tied", "bf16",
        words + Words{"model.layers=4", "optimizer.clip=1", "batch.micro=6"});
    comm::Mesh mesh = test_mesh(config);
    train_steps(config, mesh, is_slow() ? 5 : 100, false,
                [&](engine::Engine& engine) { expect_same_tables(engine, mesh); });
  }
}

std::vector<Words> all_shardings() {
  std::vector<Words> all;
  for (const char* name : {"NO_SHARD", "ZERO1", "SHARD_GRAD_OP", "FULL_SHARD"})
    all.push_back({std::string("parallel.sharding_strategy=") + name});
  all.push_back({"parallel.sharding_strategy=FULL_SHARD", "parallel.offload=weights"});
  all.push_back({format("parallel.pipeline={}", world().size())});
  return all;
}

// Frozen tensors keep their bits, and have neither gradient nor moments.
TEST(EqualitySchedule, FrozenTensors) {
  const Words frozen = {
      "optimizer.groups=[\"model.embed_tokens.weight frozen\", \"*.mlp.* frozen\"]"};
  const auto is_frozen = [](const std::string& name) {
    return name.find("embed_tokens") != std::string::npos ||
           name.find(".mlp.") != std::string::npos;
  };
  for (const Words& words : all_shardings()) {
    SCOPED_TRACE(words.back());
    const Outcome before = train("llama", "bf16", words + frozen, 0);
    std::int64_t gradients = 0, moments = 0, room = 0;
    const auto inspect = [&](engine::Engine& engine) {
      const optim::ParameterStore& store = engine.store();
      const bool shared = store.config().sharding >= optim::Sharding::gradients;
      std::int64_t most = 0;
      for (const optim::FlatParameter& flat : store.flats()) {
        const auto held = shared ? flat.shard_elements() : flat.elements;
        if (flat.frozen) continue;
        room += held * 4;
        moments += flat.shard_elements() * 8;
        most = std::max(most, flat.elements);
      }
      if (shared) room += 2 * most * 4;  // of open units
      for (const optim::FlatParameter& flat : store.flats())
        moments += flat.shard_elements() * 4;
      gradients = static_cast<std::int64_t>(store.gradient_bytes());
      moments -= static_cast<std::int64_t>(store.optimizer_bytes());
    };
    const Outcome after = train("llama", "bf16", words + frozen, 20, inspect);
    EXPECT_EQ(gradients, room);
    EXPECT_EQ(moments, 0);  // 4 bytes of master for all, 8 of moments for the trained
    for (const auto& [name, values] : after.state) {
      const bool moment = name.starts_with("optimizer/");
      EXPECT_FALSE(moment && is_frozen(name)) << name;
      if (moment) continue;
      EXPECT_EQ(same_bits(values, before.state.at(name)), is_frozen(name)) << name;
    }
    for (const auto& [name, unused] : after.gradients) {
      EXPECT_FALSE(is_frozen(name)) << name;
    }
  }
}

// w = (1 - lr decay) w - lr g with the learning rate and decay of each group: one step of
// SGD, whose momentum buffer starts as g. Two roundings, of eps / 2 = 1.1e-16 each.
TEST(EqualitySchedule, GroupsFollowSgd) {
  const Words groups = {"optimizer.name=sgd", "optimizer.learning_rate=0.01",
                        "optimizer.weight_decay=0.1",
                        "optimizer.groups=[\"*.mlp.* learning_rate=0.1 weight_decay=0\", "
                        "\"*.self_attn.* learning_rate=0.002 weight_decay=0.3\"]"};
  const auto has = [](const std::string& name, const char* part) {
    return name.find(part) != std::string::npos;
  };
  for (const Words& words : all_shardings()) {
    SCOPED_TRACE(words.back());
    const Outcome before = train("llama", "fp64", words + groups, 0);
    const Outcome after = train("llama", "fp64", words + groups, 1);
    int compared = 0;
    for (const auto& [name, gradient] : after.gradients) {
      const std::string weight = "model/" + name.substr(name.find('/') + 1);
      double rate = 0.01, decay = has(name, "norm") ? 0.0 : 0.1;
      if (has(name, ".mlp.")) rate = 0.1, decay = 0;
      if (has(name, ".self_attn.")) rate = 0.002, decay = 0.3;
      std::vector<double> expected = before.state.at(weight);
      for (std::size_t i = 0; i < expected.size(); ++i)
        expected[i] = (1 - rate * decay) * expected[i] - rate * gradient[i];
      EXPECT_LE(relative(after.state.at(weight), expected), 2.3e-16) << name;
      ++compared;
    }
    EXPECT_EQ(compared, 4 * 9 + 3);
  }
}

// The owned elements of every unit's share, over the first copy of each, are the model's
// parameters: each once. And what is not split is whole on each rank.
TEST(EqualitySchedule, UnitsSumToTheModel) {
  int line_number = 0, checked = 0;
  for (const MeshLine& line : read_mesh_table(MESH_TABLE)) {
    if (++line_number % world().size() != world().rank()) continue;
    for (const std::int64_t wrap : {0, 1000, 10000000}) {
      SCOPED_TRACE(line.text + format(" wrap {}", wrap));
      auto config = mesh_config(line, "fp32");
      config.parallel.wrap_parameters = wrap;
      const auto& shape = config.parallel.mesh;
      std::int64_t sum = 0;
      for (int rank = 0; rank < shape.size(); ++rank) {
        comm::Mesh mesh = comm::Mesh::meta(shape, rank, config.parallel.folding);
        engine::Engine engine(config, mesh, Device::meta());
        std::int64_t local = 0, pieces = 0;
        for (const optim::FlatParameter& flat : engine.store().flats()) {
          for (const optim::ParameterView& view : flat.views) {
            pieces += view.elements;
            const Range share = flat.shard();
            const Range mine{std::max(share.begin - view.begin, std::int64_t{0}),
                             std::min(share.end - view.begin, view.elements)};
            if (mine.begin >= mine.end || flat.replicate_group->rank() != 0) continue;
            for (const optim::ParamBox& box : optim::boxes_of(*view.param, mine))
              local += box.named->owned ? box.extent.elements() : 0;
          }
        }
        sum += local;
        EXPECT_EQ(pieces, engine.store().local_elements());
        const bool alone = shape.tensor == 1 && shape.pipeline == 1 &&
                           config.parallel.folding.expert == 1;
        if (alone) {
          EXPECT_EQ(pieces, model::parameter_count(config.model));
        }
      }
      EXPECT_EQ(sum, model::parameter_count(config.model));
      ++checked;
    }
  }
  EXPECT_GT(checked, 20);
}

}  // namespace
}  // namespace trireme::test
