// Training on a mesh, for tests.
// SPDX-License-Identifier: Apache-2.0
#include "support/mesh_run.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/cuda_devices.hpp"
#include "base/philox.hpp"
#include "engine/documents.hpp"
#include "engine/whole_tensors.hpp"
#include "io/host_copy.hpp"
#include "kernels/elementwise.hpp"
#include "support/device.hpp"
#include "support/step.hpp"
#include "support/transport.hpp"
#include "support/world.hpp"

namespace trireme::test {
namespace {

std::int32_t token(const config::RunConfig& config, std::int64_t sequence,
                   std::int64_t t) {
  const Random random(11, 5);
  return static_cast<std::int32_t>(
      random.below(static_cast<std::uint64_t>(sequence * 1000 + t),
                   static_cast<std::uint64_t>(config.model.vocabulary)));
}

// Of conversations, a run of turns is learned, and the end of a row is padding.
std::int32_t target(const config::RunConfig& config, std::int64_t sequence,
                    std::int64_t t) {
  bool ignored = (sequence * 31 + t * 7) % 5 == 0;
  if (config.data.kind == io::SourceKind::chat)
    ignored = (t + sequence) % 11 < 6 || t >= config.model.sequence - sequence % 9;
  return ignored ? -100 : token(config, sequence, t + 1);
}

struct OwnedBatch {
  std::vector<Buffer> memory;
  engine::Batch batch;
};

// With packing: documents of some tokens, which differ from row to row.
std::vector<std::int64_t> starts_of(const config::RunConfig& config,
                                    std::int64_t sequence) {
  std::vector<std::int64_t> starts(static_cast<std::size_t>(config.model.sequence));
  for (std::size_t t = 1; t < starts.size(); ++t)
    starts[t] = token(config, sequence, static_cast<std::int64_t>(t)) % 5 == 0
                    ? static_cast<std::int64_t>(t)
                    : starts[t - 1];
  return starts;
}

void add_documents(const config::RunConfig& config, int data_rank,
                   const std::vector<std::int64_t>& positions, OwnedBatch& owned) {
  const auto P = static_cast<std::int64_t>(positions.size());
  for (std::int64_t m = 0; m < config.microbatches(); ++m) {
    const TensorView ids =
        owned.memory
            .emplace_back(Device::host(), DType::i32, Shape{3, config.batch.micro * P},
                          MemoryClass::data, "documents")
            .view();
    const auto view = [&](std::int64_t i) {
      return ids.rows(i, 1).reshape({config.batch.micro * P});
    };
    owned.batch.documents.push_back({view(0), view(1), view(2)});
    for (std::int64_t row = 0; row < config.batch.micro; ++row) {
      const std::int64_t s =
          (m * config.parallel.mesh.data + data_rank) * config.batch.micro + row;
      const auto starts = starts_of(config, s);
      for (std::int64_t i = 0; i < P; ++i)
        engine::put_document(
            owned.batch.documents.back(), static_cast<std::size_t>(row * P + i),
            positions[static_cast<std::size_t>(i)], starts, config.model.window);
    }
  }
}

// Of each position: the answer that its target is of. A row's documents are answers, two
// by two; pairs of which one has no target are none.
struct RowAnswers {
  std::vector<std::int32_t> numbers;   // counted in the row
  std::vector<std::int64_t> targets;   // of each answer
  std::vector<std::int32_t> places{};  // of each answer among those that count
};
RowAnswers answers_of(const config::RunConfig& config, std::int64_t sequence) {
  const auto starts = starts_of(config, sequence);
  RowAnswers row;
  std::int32_t documents = -1;
  for (std::size_t t = 0; t < starts.size(); ++t) {
    if (starts[t] == static_cast<std::int64_t>(t)) {
      ++documents;
      row.targets.push_back(0);
    }
    const bool counts = target(config, sequence, static_cast<std::int64_t>(t)) >= 0;
    row.numbers.push_back(counts ? documents : -1);
    row.targets.back() += counts;
  }
  std::int32_t next = 0;
  for (std::size_t a = 0; a < row.targets.size(); ++a) {
    const std::size_t first = a / 2 * 2;
    const bool pair = first + 1 < row.targets.size() && row.targets[first] > 0 &&
                      row.targets[first + 1] > 0;
    row.places.push_back(pair ? next++ : -1);
  }
  return row;
}

void add_answers(const config::RunConfig& config, int data_rank,
                 const std::vector<std::int64_t>& positions, OwnedBatch& owned) {
  const auto P = static_cast<std::int64_t>(positions.size());
  for (std::int64_t m = 0; m < config.microbatches(); ++m) {
    const TensorView numbers_T =
        owned.memory
            .emplace_back(Device::host(), DType::i32, Shape{config.batch.micro * P},
                          MemoryClass::data, "answers")
            .view();
    const TensorView places_G2 =
        owned.memory
            .emplace_back(Device::host(), DType::f64,
                          Shape{config.batch.micro * config.model.sequence, 2},
                          MemoryClass::data, "references")
            .view();
    owned.batch.answers.push_back({numbers_T, places_G2});
    std::ranges::fill(places_G2.span<double>(), 0.0);
    std::int32_t before = 0;  // answers of the rows before
    for (std::int64_t b = 0; b < config.batch.micro; ++b) {
      const std::int64_t s =
          (m * config.parallel.mesh.data + data_rank) * config.batch.micro + b;
      const RowAnswers row = answers_of(config, s);
      std::int32_t answers = 0;
      for (std::size_t a = 0; a < row.places.size(); ++a) {
        if (row.places[a] < 0) continue;
        const auto tokens = static_cast<double>(row.targets[a]);
        double* const place = places_G2.data<double>() + 2 * (before + row.places[a]);
        place[0] = -tokens * (3.8 + 0.1 * static_cast<double>((s + row.places[a]) % 5));
        place[1] = tokens;
        ++answers;
      }
      for (std::int64_t i = 0; i < P; ++i) {
        const auto t = static_cast<std::size_t>(positions[static_cast<std::size_t>(i)]);
        const std::int32_t of = row.numbers[t];
        const std::int32_t place = of < 0 ? -1 : row.places[static_cast<std::size_t>(of)];
        numbers_T.data<std::int32_t>()[b * P + i] = place < 0 ? -1 : before + place;
      }
      before += answers;
    }
    if (owned.batch.ends_with_stand_in && m + 1 == config.microbatches()) {
      std::ranges::fill(numbers_T.span<std::int32_t>(), -1);
      std::ranges::fill(places_G2.span<double>(), 0.0);
    } else if (positions.front() == 0) {
      owned.batch.pairs += before / 2;
    }
  }
}

std::int64_t valid_in(const TensorView& targets) {
  const auto values = targets.span<std::int32_t>();
  return std::count_if(values.begin(), values.end(),
                       [](std::int32_t id) { return id >= 0; });
}

TensorView no_targets(std::int64_t tokens) {
  static std::map<std::int64_t, Buffer> known;
  const auto [found, fresh] = known.try_emplace(tokens, Device::host(), DType::i32,
                                                Shape{tokens}, MemoryClass::data, "none");
  if (fresh) std::ranges::fill(found->second.view().span<std::int32_t>(), -100);
  return found->second.view();
}

// Of a step of so many sequences. The stand-in's tokens stay those of sequences that no
// rank has: they do not matter.
void mark_stand_in(const config::RunConfig& config, std::int64_t global, int data_rank,
                   engine::Batch& batch) {
  batch.stand_ins = config.stand_ins(global);
  batch.ends_with_stand_in = data_rank >= config.parallel.mesh.data - batch.stand_ins;
  if (batch.ends_with_stand_in)
    batch.targets.back() = no_targets(batch.targets.back().elements());
}

OwnedBatch make_batch(const config::RunConfig& config, int data_rank,
                      const std::vector<std::int64_t>& positions) {
  OwnedBatch owned;
  engine::Batch& batch = owned.batch;
  const auto P = static_cast<std::int64_t>(positions.size());
  for (std::int64_t m = 0; m < config.microbatches(); ++m) {
    for (auto* views : {&batch.inputs, &batch.targets}) {
      owned.memory.emplace_back(Device::host(), DType::i32, Shape{config.batch.micro * P},
                                MemoryClass::data, "ids");
      const TensorView ids = owned.memory.back().view();
      for (std::int64_t row = 0; row < config.batch.micro; ++row) {
        const std::int64_t s =
            (m * config.parallel.mesh.data + data_rank) * config.batch.micro + row;
        for (std::int64_t i = 0; i < P; ++i) {
          const std::int64_t t = positions[static_cast<std::size_t>(i)];
          ids.data<std::int32_t>()[row * P + i] =
              views == &batch.inputs ? token(config, s, t) : target(config, s, t);
        }
      }
      views->push_back(ids);
    }
  }
  mark_stand_in(config, config.batch.global, data_rank, batch);
  for (const TensorView& targets : batch.targets) batch.valid_tokens += valid_in(targets);
  if (config.has_documents()) add_documents(config, data_rank, positions, owned);
  if (config.learns_pairs()) add_answers(config, data_rank, positions, owned);
  return owned;
}

// What a step has of it within a ramp: the first sequences.
engine::Batch part_of(const engine::Batch& whole, const config::RunConfig& config,
                      int data_rank, std::int64_t step) {
  const config::BatchStage stage = config.stage_of(step);
  const std::int64_t count = config.microbatches(stage);
  engine::Batch batch = whole;
  batch.step = step;
  if (stage.global == config.batch.global) return batch;
  require(batch.answers.empty(), "a ramp of pairs is not made here");
  batch.inputs.resize(static_cast<std::size_t>(count));
  batch.targets.resize(batch.inputs.size());
  if (!batch.documents.empty()) batch.documents.resize(batch.inputs.size());
  mark_stand_in(config, stage.global, data_rank, batch);
  batch.valid_tokens = 0;
  for (const TensorView& targets : batch.targets) batch.valid_tokens += valid_in(targets);
  return batch;
}

std::vector<double> in_double(const TensorView& of) {
  io::HostCopy host;
  const TensorView x = host.read(of);
  if (is_fp8(x.dtype()) || x.dtype() == DType::u8) {
    std::vector<double> values;
    for (std::int64_t i = 0; i < x.elements(); ++i)
      values.push_back(1.0 + static_cast<const std::uint8_t*>(x.raw())[i]);
    return values;
  }
  const Buffer wide(Device::host(), DType::f64, x.shape(), MemoryClass::workspace, "");
  Stream stream;
  kernels::copy(stream, x, wide.view());
  const auto values = wide.view().span<double>();
  return {values.begin(), values.end()};
}

Tensors gather(const std::vector<optim::StateBox>& boxes, comm::Mesh& mesh) {
  Tensors tensors;
  const bool alone = mesh.shape().size() == 1;
  std::vector<engine::NamedShape> names;
  if (alone) {
    for (const auto& box : boxes)
      names.push_back({engine::name_of(box), box.named->whole});
  } else {
    names = engine::all_tensors(world(), boxes);
  }
  // In double, which holds every number of every other type. Codes stand for
  // themselves: code + 1, so that a zero code is seen to be there.
  std::vector<std::vector<double>> values;
  std::vector<optim::StateBox> wide;
  for (const auto& box : boxes) {
    values.push_back(in_double(box.data));
    wide.push_back(box);
    wide.back().data = TensorView(values.back().data(), DType::f64, box.data.shape());
  }
  for (const auto& [name, shape] : names) {
    const Buffer whole(Device::host(), DType::f64, shape, MemoryClass::workspace,
                       "whole tensor");
    engine::gather_whole(mesh, wide, name, whole.view());
    tensors[name] = in_double(whole.view());
  }
  return tensors;
}

}  // namespace

comm::Mesh test_mesh(const config::RunConfig& config) {
  return comm::Mesh(world(), config.parallel.mesh, config.parallel.folding, test_device(),
                    test_transport());
}

Outcome train_steps(const config::RunConfig& config, comm::Mesh& mesh, int steps,
                    bool whole, const std::function<void(engine::Engine&)>& inspect,
                    const Resume& resume, bool state) {
  engine::Engine engine(config, mesh, mesh.device());
  engine.load_base();
  if (resume.load) {
    resume.load(engine);
  } else {
    engine.store().initialize(42);
  }
  const int data_rank = mesh.coordinate(comm::Axis::data);
  const OwnedBatch owned = make_batch(config, data_rank, engine.positions());
  Outcome outcome;
  std::int64_t under_way = 0;
  AtGradients observer(
      [&](double loss_scale) {
        if (under_way != resume.first || !whole) return;
        outcome.gradients = gather(engine.store().gradient_boxes(), mesh);
        for (auto& [name, gradient] : outcome.gradients)
          for (double& x : gradient) x /= loss_scale;
      },
      true);
  for (int step = resume.first; step < resume.first + steps; ++step) {
    under_way = step;
    const engine::StepResult result =
        engine.train_step(part_of(owned.batch, config, data_rank, step), observer);
    outcome.losses.push_back(result.loss);
    outcome.norms.push_back(result.gradient_norm);
    outcome.overflows += result.update == engine::StepResult::Update::overflow;
  }
  if (whole && state) outcome.state = gather(engine.store().state_boxes(), mesh);
  if (inspect) inspect(engine);
  return outcome;
}

engine::StepResult step_of(engine::Engine& engine, const config::RunConfig& config,
                           comm::Mesh& mesh, engine::StepObserver& observer,
                           std::int64_t step) {
  OwnedBatch owned =
      make_batch(config, mesh.coordinate(comm::Axis::data), engine.positions());
  owned.batch.step = step;
  return engine.train_step(owned.batch, observer);
}

Outcome train_alone(config::RunConfig config, int steps) {
  const std::int64_t bucket_bytes = config.parallel.bucket_bytes;
  config.parallel = {};
  config.parallel.bucket_bytes = bucket_bytes;
  config.recompute = {};
  config.batch.micro = 1;
  comm::Mesh alone = comm::Mesh::meta({}, 0);
  return train_steps(config, alone, steps);
}

bool is_slow() {
  return is_watched() || (test_device().is_cuda() && cuda_devices().front().emulated);
}

double relative(const std::vector<double>& a, const std::vector<double>& b) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    size += b[i] * b[i];
  }
  return std::sqrt(difference) / std::sqrt(std::max(size, 1e-300));
}

void expect_equal(const Outcome& mesh, const Outcome& one, const Limits& limits) {
  ASSERT_EQ(mesh.gradients.size(), one.gradients.size());
  for (const auto& [name, gradient] : one.gradients) {
    ASSERT_TRUE(mesh.gradients.contains(name)) << name;
    EXPECT_LE(relative(mesh.gradients.at(name), gradient), limits.gradient) << name;
  }
  EXPECT_NEAR(mesh.norms.front() / one.norms.front(), 1.0, limits.norm);
  ASSERT_EQ(mesh.losses.size(), one.losses.size());
  for (std::size_t i = 0; i < one.losses.size(); ++i) {
    EXPECT_NEAR(mesh.losses[i], one.losses[i], limits.loss) << "step " << i + 1;
  }
}

}  // namespace trireme::test
