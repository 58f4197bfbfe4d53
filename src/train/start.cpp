// Checks and reads of what a run starts with.
// SPDX-License-Identifier: Apache-2.0
#include "train/start.hpp"

#include <set>
#include <utility>

#include "comm/mesh.hpp"
#include "convert/kept_files.hpp"
#include "convert/model_folder.hpp"
#include "engine/checkpoint_boxes.hpp"
#include "engine/engine.hpp"
#include "model/whole_tensors.hpp"
#include "nn/adapter_config.hpp"
#include "nn/fp8_state.hpp"
#include "train/base_check.hpp"
#include "train/checkpoint_choice.hpp"
#include "train/missing_state.hpp"

namespace trireme::train {
namespace {

bool is_weight(const io::TensorBox& box) { return box.path.starts_with("model/"); }

constexpr auto model_hint =
    "write the [model] and [adapter] of the deck that it was written with, or start from "
    "the beginning in another run.directory";

constexpr auto recipe_hint =
    "write the precision.recipe, first_bf16 and last_bf16 of the deck that it was "
    "written with, or start from the beginning in another run.directory";

// What to write where a checkpoint's tensor is not of the run's shape or type.
std::string hint_of(const io::CheckpointReader& reader, const io::TensorBox& box) {
  if (!nn::is_fp8_state(box.path)) return model_hint;
  for (const io::TensorEntry& entry : reader.tensors())
    if (entry.path == box.path && entry.shape.rank() == 2 && box.whole.rank() == 2)
      return format(
          "write precision.amax_history = {}, as in the deck that it was written with, "
          "or start from the beginning in another run.directory",
          entry.shape[1]);
  return recipe_hint;
}

// The sections of the deck that say which tensors there are: said first, for state of an
// optimizer is missing as well where a model is another. Histories of scales come behind
// the weights.
void check_weights(const io::CheckpointReader& reader,
                   const std::vector<io::TensorBox>& boxes) {
  for (const io::TensorBox& box : boxes) {
    if (!is_weight(box)) continue;
    const bool scales = nn::is_fp8_state(box.path);
    require(reader.has(box.path), Status::bad_content,
            "{}: has no '{}', which this run's {} has: {}", reader.directory(), box.path,
            scales ? "precision.recipe" : "model", scales ? recipe_hint : model_hint);
    try {
      reader.require_tensor(box.path, box.whole, box.data.dtype());
    } catch (const Error& error) {
      fail(error.status(), "{}: {}", error.what(), hint_of(reader, box));
    }
  }
}

// Layers, or a head, that the checkpoint has and this run's model has not would be lost.
void check_no_lost_weights(const io::CheckpointReader& reader,
                           const model::ModelConfig& model) {
  std::set<std::string> names;
  for (auto& whole : model::whole_tensors(model)) names.insert(std::move(whole.name));
  constexpr std::string_view prefix = "model/";
  for (const io::TensorEntry& entry : reader.tensors()) {
    const std::string& path = entry.path;
    if (!path.starts_with(prefix)) continue;
    if (nn::is_adapter_tensor(path) || nn::is_fp8_state(path)) continue;
    require(names.contains(path.substr(prefix.size())), Status::bad_content,
            "{}: has '{}', which this run's model has not and would drop: {}",
            reader.directory(), path, model_hint);
  }
}

// Of the ranks of the mesh that this one stands for, on the device without memory.
std::vector<io::TensorBox> meta_boxes(const comm::World& world,
                                      const config::RunConfig& config,
                                      const launch::ComputeDevice& on,
                                      const io::CheckpointReader* from) {
  const comm::MeshShape& shape = config.parallel.mesh;
  const bool all = world.size() == shape.size();
  const int stride = all ? 1 : shape.size() / shape.pipeline;
  std::vector<io::TensorBox> boxes;
  for (int i = world.rank(); i * stride < shape.size(); i += world.size()) {
    comm::Mesh mesh = comm::Mesh::meta(shape, i * stride, config.parallel.folding,
                                       on.device, on.transport);
    engine::Engine engine(config, mesh, Device::meta());
    if (from != nullptr) check_no_numbers(*from, engine.base());
    for (io::TensorBox& box : engine::checkpoint_boxes(engine, mesh))
      boxes.push_back(std::move(box));
  }
  return boxes;
}

// No row of a box: to read it is to look for its tensor.
io::TensorBox without_rows(io::TensorBox box) {
  Shape shape = box.data.shape();
  shape[0] = 0;
  box.data = TensorView(nullptr, box.data.dtype(), shape);
  return box;
}

std::unique_ptr<io::TensorSource> open_source(comm::World& world, const std::string& from,
                                              const std::vector<io::TensorBox>& boxes) {
  const bool is_folder = world.rank() == 0 && convert::is_model_folder(from);
  std::unique_ptr<io::TensorSource> folder;
  if (world.max(is_folder ? 1 : 0) > 0) {
    world.agree(
        [&] { folder = convert::open_tensors(from, world.rank(), world.size()); });
    return folder;
  }
  auto checkpoint = std::make_unique<io::CheckpointReader>(world, from);
  const std::string wrong = first_damage(world, *checkpoint);
  if (!wrong.empty()) throw comm::Agreed(Status::bad_content, wrong);
  std::vector<io::TensorBox> wanted = boxes;
  for (const io::TensorBox& box : boxes)
    if (auto rows = StartAdapters::rows_of(box, *checkpoint)) wanted.push_back(*rows);
  checkpoint->fetch(world, wanted);
  return checkpoint;
}

// What a run that goes on holds its pairs against.
void check_references(comm::World& world, const config::RunConfig& config,
                      const std::string& deck, const std::vector<ReferencePart>& pairs) {
  if (pairs.empty()) return;
  world.agree([&] {
    if (world.rank() != 0) return;
    const ReferenceFile file(config, deck);
    for (const ReferencePart& part : pairs) file.read(part);
  });
}

}  // namespace

std::vector<io::TensorBox> boxes_of_checkpoint(comm::World& world,
                                               const config::RunConfig& config,
                                               const io::CheckpointReader& reader,
                                               std::vector<io::TensorBox> boxes) {
  world.agree([&] {
    check_no_lost_adapters(reader, config.adapter.matrices);
    check_weights(reader, boxes);
    if (world.rank() == 0) check_no_lost_weights(reader, config.model);
  });
  boxes = boxes_to_load(world, reader, std::move(boxes), config.optimizer.name);
  world.agree([&] {
    for (const io::TensorBox& box : boxes)
      reader.require_tensor(box.path, box.whole, box.data.dtype());
  });
  return boxes;
}

StartWeights::StartWeights(comm::World& world, const config::RunConfig& config,
                           const std::vector<io::TensorBox>& boxes)
    : config_(config), source_(open_source(world, config.start_from, boxes)) {
  world.agree([&] {
    adapters_.emplace(config, dynamic_cast<const io::CheckpointReader*>(source_.get()));
  });
}

void StartWeights::read(const io::TensorBox& box) const {
  // With adapter.quantize these are what its codes stand for.
  const auto* coded = dynamic_cast<const io::TensorSource*>(config_.adapter.codes.get());
  const io::TensorSource& base = coded != nullptr ? *coded : *source_;
  // Scales of FP8 begin anew: a folder has none, and a run's are those of its data.
  if (is_weight(box) && !nn::is_fp8_state(box.path) && !adapters_->read(box, base))
    source_->read(box.path, box.whole, box.begin, box.data);
}

void check_start(comm::World& world, const config::RunConfig& config,
                 const std::string& deck, const launch::ComputeDevice& on,
                 const std::vector<ReferencePart>& pairs) {
  const ChosenCheckpoint from = chosen_checkpoint(world, config, Repair::no);
  if (!from.reader && config.start_from.empty()) return;
  if (from.reader) identify_base(world, config, from.reader.get());
  std::vector<io::TensorBox> boxes;
  world.agree([&] { boxes = meta_boxes(world, config, on, from.reader.get()); });
  if (from.reader) {
    boxes_of_checkpoint(world, config, *from.reader, std::move(boxes));
    const std::int64_t step = from.reader->info().step;
    if (step > 0 && step < config.run.steps) check_references(world, config, deck, pairs);
  } else {
    const StartWeights start(world, config, boxes);
    world.agree([&] {
      for (const io::TensorBox& box : boxes) start.read(without_rows(box));
      if (world.rank() == 0 && convert::is_model_folder(config.start_from))
        convert::warn_of_odd_names(config.start_from);
    });
  }
}

}  // namespace trireme::train
