// Decks of commands and of checkpoints.
// SPDX-License-Identifier: Apache-2.0
#include "app/deck_arguments.hpp"

#include "base/has_cuda.hpp"
#include "base/log.hpp"
#include "config/deck_table.hpp"
#include "config/keys.hpp"
#include "config/resolved_deck.hpp"
#include "config/start_model.hpp"
#include "convert/base_digest.hpp"
#include "convert/merged_adapters.hpp"
#include "convert/model_folder.hpp"
#include "convert/quantized_base.hpp"
#include "io/checkpoint_find.hpp"

namespace trireme::app {
namespace {

config::RunConfig config_of(const io::CheckpointInfo& info,
                            const std::string& directory) {
  const auto deck =
      io::Deck::parse(info.deck, directory + " (its deck)", {}, config::deck_table());
  return config::stored_run_config(deck, info.mesh.size());
}

// What becomes of a sequence that is longer than the positions of a folder.
struct LongerSequence {
  Status status;
  std::string_view advice;
};

void set_sequence(const std::string& path, model::ModelConfig& model,
                  std::int64_t sequence, const LongerSequence& longer) {
  if (sequence == 0) return;
  require(model.allows_sequence(sequence), longer.status,
          "{}: has {} positions, and a sequence of {} tokens is longer: {}", path,
          model.positions(), sequence, longer.advice);
  model.set_sequence(sequence);
}

constexpr LongerSequence longer_option{Status::command_line, "give a smaller --sequence"},
    longer_key{Status::bad_content, "write a smaller model.sequence"};

model::ModelConfig folder_model(const std::string& path, std::int64_t sequence,
                                const LongerSequence& longer) {
  model::ModelConfig model = convert::read_folder_config(path).model;
  set_sequence(format("{}/{}", path, convert::config_name), model, sequence, longer);
  return model;
}

}  // namespace

LoadedDeck load_deck(const std::vector<std::string>& words, int ranks,
                     int ranks_on_node) {
  const std::vector<std::string> overrides(words.begin() + 1, words.end());
  auto run = config::load_run(words.front(), overrides, ranks, ranks_on_node, read_model);
  config::AdapterSettings& adapter = run.config.adapter;
  if (adapter.quantize != model::BaseCodes::none) {
    const std::string& from = run.config.start_from;
    require(
        !from.empty(), Status::bad_content,
        "adapter.quantize = \"{}\" is of the weights of a model, and model.from names "
        "none: write the folder or checkpoint to start from, or adapter.quantize = "
        "\"none\"",
        name_of(adapter.quantize));
    adapter.codes = convert::open_coded_base(from, adapter.quantize).codes;
  }
  return {run.config, config::resolved_deck(run.deck.effective(), run.config)};
}

config::RunConfig checkpoint_config(const io::CheckpointReader& reader) {
  return config_of(reader.info(), reader.directory());
}

std::shared_ptr<const io::TensorSource> tensors_of(
    std::shared_ptr<const io::CheckpointReader> checkpoint,
    const config::RunConfig& config, int part, int parts) {
  if (config.adapter.quantize == model::BaseCodes::none) return checkpoint;
  convert::CodedBase coded;
  try {
    coded = convert::open_coded_base(config.start_from, config.adapter.quantize);
  } catch (const Error& error) {
    fail(error.status(),
         "{}: holds an adapter beside the model of \"{}\" (model.from), which is not in "
         "it: {}: run this where that path is the model",
         checkpoint->directory(), config.start_from, error.what());
  }
  if (const std::string& base = checkpoint->info().base; base.empty()) {
    log::warn(
        "{}: was written by a program that did not note what the model of \"{}\" "
        "(model.from) was: it is taken to be the same still",
        checkpoint->directory(), config.start_from);
  } else {
    convert::check_base_digest(checkpoint->directory(), base, config.start_from,
                               config.adapter.quantize, part, parts);
  }
  return std::make_shared<const convert::CheckpointOnBase>(checkpoint, std::move(coded));
}

std::string folder_deck(const model::ModelConfig& model, std::optional<DType> dtype) {
  std::vector<std::string> lines = config::model_lines(model);
  std::string_view compute = "fp32";
  if (dtype == DType::bf16) compute = "bf16";
  if (dtype == DType::f16) compute = "fp16";
  if (dtype == DType::f64) compute = "fp64";
  for (const std::string& line :
       {std::string("run.steps = 1"), std::string("batch.global = 1"),
        std::string("batch.micro = 1"), std::string("data.source = \"synthetic\""),
        format("precision.compute = \"{}\"", compute)})
    lines.push_back(line);
  const auto deck = io::Deck::parse("", "the model's deck", lines, config::deck_table());
  return deck.effective();
}

model::ModelConfig read_model(const std::string& path, std::int64_t sequence) {
  if (!convert::is_model_folder(path)) {
    const io::NamedCheckpoint named = io::checkpoint_info(path);
    const config::RunConfig config = config_of(named.info, named.directory);
    require(config.adapter.quantize == model::BaseCodes::none, Status::bad_content,
            "model.from = \"{}\" holds an adapter beside a quantized model, which is not "
            "in it: merge them first (trireme convert {} TO --merge)",
            path, path);
    model::ModelConfig model = config.model;
    set_sequence(path, model, sequence, longer_key);
    return model;
  }
  return folder_model(path, sequence, longer_key);
}

OpenedModel open_model(const comm::World& world, const std::string& path,
                       std::int64_t sequence) {
  if (!convert::is_model_folder(path)) {
    auto reader = std::make_unique<io::CheckpointReader>(
        path, io::DigestShare{world.rank(), world.size()});
    config::RunConfig config = checkpoint_config(*reader);
    set_sequence(path, config.model, sequence, longer_option);
    config.data.sequence = config.model.sequence;
    if (!config.adapter.matrices.exists()) return {std::move(reader), config};
    // The model with what was trained beside it.
    const std::shared_ptr<const io::CheckpointReader> shared = std::move(reader);
    std::vector<convert::AddedAdapter> own = {
        convert::own_adapter(shared, config.adapter.matrices)};
    return {std::make_unique<convert::MergedAdapters>(
                tensors_of(shared, config, world.rank(), world.size()), std::move(own)),
            config};
  }
  const model::ModelConfig model = folder_model(path, sequence, longer_option);
  auto folder = std::make_unique<convert::ModelFolder>(path);
  const auto deck = io::Deck::parse(folder_deck(model, folder->config().dtype),
                                    path + " (as a deck)", {}, config::deck_table());
  return {std::move(folder), config::make_run_config(deck, 1)};
}

launch::ComputeDevice device_of(comm::World& world, const Arguments& arguments) {
  const std::string wanted = arguments.text("--device", "auto");
  const config::DeviceChoice* choice = config::key::run.device.find(wanted);
  world.agree([&] {
    require(choice != nullptr, Status::command_line,
            "--device: '{}' is none of auto, cpu and cuda", wanted);
    require(has_cuda || *choice != config::DeviceChoice::cuda, Status::resources,
            "--device cuda: this program was built without CUDA: build it with "
            "-DTRIREME_CUDA=ON, or give --device cpu");
  });
  return launch::choose_device(world, *choice, comm::Backend::automatic, false);
}

}  // namespace trireme::app
