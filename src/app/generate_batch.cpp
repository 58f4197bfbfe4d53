// Runs a file of prompts and writes what comes of them.
// SPDX-License-Identifier: Apache-2.0
#include "app/generate_batch.hpp"

#include <chrono>
#include <filesystem>
#include <optional>

#include "app/generation_output.hpp"
#include "base/log.hpp"
#include "base/number.hpp"
#include "base/stopwatch.hpp"
#include "config/start_model.hpp"
#include "infer/batch_generator.hpp"
#include "infer/weights_digest.hpp"
#include "kernels/runtime/runtime.hpp"

namespace trireme::app {
namespace {

using Clock = std::chrono::steady_clock;

// Says how far it is, every few seconds, and at the end.
class ProgressLines {
 public:
  ProgressLines(std::size_t all, std::size_t before)
      : all_(all), before_(before), start_(Clock::now()), last_(start_) {}
  void step(const infer::BatchProgress& progress) {
    now_ = progress;
    constexpr std::chrono::seconds pause(5);
    if (Clock::now() - last_ < pause) return;
    last_ = Clock::now();
    log::info("{} of {} texts, {} tokens, {} tokens/s", before_ + texts(), all_,
              now_.new_tokens, fixed(rate(), 1));
  }
  void end() const {
    log::info("{} texts, {} new tokens, {} prompt tokens in {} steps, {} tokens/s{}",
              texts(), now_.new_tokens, now_.prompt_tokens, now_.steps, fixed(rate(), 1),
              now_.preemptions > 0
                  ? format(", {} preemptions for want of cache", now_.preemptions)
                  : "");
  }

 private:
  std::size_t texts() const { return static_cast<std::size_t>(now_.texts); }
  double rate() const {
    const double seconds = seconds_since(start_);
    return seconds > 0 ? static_cast<double>(now_.new_tokens) / seconds : 0;
  }
  std::size_t all_, before_;
  Clock::time_point start_, last_;
  infer::BatchProgress now_;
};

// What decides the bits of texts besides their prompts. Weights count with adapters, and
// wherever they lie.
std::string key_of(const OpenedModel& opened, const launch::ComputeDevice& on,
                   const infer::BatchOptions& options, const comm::MeshShape& shape) {
  const config::RunConfig& config = opened.config;
  std::string key =
      format("{}|{}|{}|{}|{}|{}|{}", infer::weights_digest(*opened.tensors, config.model),
             on.describe(), name_of(config.precision.compute),
             name_of(options.cache.type), options.chunk, shape.pipeline, shape.tensor);
  for (const std::string& line : config::model_lines(config.model)) key += "|" + line;
  return key;
}

std::optional<data::ChatTemplate> chat_template(const Arguments& arguments,
                                                const ModelText& text) {
  const std::string file = arguments.text("--chat-template", "");
  if (!text.tokenizer && file.empty()) return {};
  return data::open_chat_template(text.tokenizer ? text.tokenizer->folder() : "", file,
                                  "");
}

// What rank 0 has not found in its files, on every rank.
std::vector<std::size_t> missing_texts(comm::World& world,
                                       const std::optional<GenerationOutput>& output) {
  std::vector<std::size_t> missing;
  std::string list;
  if (output)
    for (const std::size_t number : output->missing())
      list += std::to_string(number) + " ";
  list = world.broadcast(list);
  for (std::size_t at = 0; at < list.size();) {
    const auto end = list.find(' ', at);
    missing.push_back(parse_number<std::uint64_t>(list.substr(at, end - at)).value());
    at = end + 1;
  }
  return missing;
}

// Runs what is missing and puts the file in place.
void run_batch(comm::World& world, infer::BatchGenerator& batch,
               const PromptFile& prompts, const std::vector<std::size_t>& missing,
               const ModelText& text, std::optional<GenerationOutput>& output) {
  log::info("{} texts at a time, {} of cache", batch.texts(),
            human_bytes(static_cast<double>(batch.cache_bytes())));
  ProgressLines progress(prompts.wanted.size(), prompts.wanted.size() - missing.size());
  batch.run(
      missing,
      [&](std::size_t number, infer::Generated&& made) {
        if (output) output->add(number, made, text);
      },
      [&](const infer::BatchProgress& now) { progress.step(now); });
  progress.end();
  world.agree([&] {
    if (output) output->finish();
  });
}

// Tokens that a text may come to have, prompt included.
std::int64_t longest_text(const std::vector<infer::Generation>& generations) {
  std::int64_t longest = 0;
  for (const infer::Generation& one : generations)
    longest = std::max(longest,
                       static_cast<std::int64_t>(one.prompt.size()) + one.max_new_tokens);
  return longest;
}

// NCCL adds up more than two ranks in an order that depends on where a number stands in a
// message: texts would depend on their neighbours. MPI's order is that of the ranks.
comm::Transport transport_of_batch(comm::Transport transport, int tensor) {
  if (transport != comm::Transport::nccl || tensor <= 2) return transport;
  log::info(
      "messages of {} tensor ranks by MPI through the host, whose sums do not depend on "
      "a text's neighbours; with --pipeline at most two share a stage, by NCCL",
      tensor);
  return comm::Transport::mpi;
}

}  // namespace

comm::MeshShape inference_mesh(const comm::World& world, const Arguments& arguments,
                               const model::ModelConfig& model) {
  const auto stages = static_cast<int>(arguments.integer("--pipeline", 1, 1, 1 << 16));
  require(world.size() % stages == 0, Status::resources,
          "--pipeline {} does not divide the {} ranks that were started", stages,
          world.size());
  require(stages <= model.layers, Status::resources,
          "--pipeline {}: the model has {} layers, and each stage needs one", stages,
          model.layers);
  const int tensor = world.size() / stages;
  require(model.heads % tensor == 0, Status::resources,
          "model.heads = {} cannot be split over {} ranks; start a divisor of it",
          model.heads, tensor);
  bool linear = false;
  for (std::int64_t layer = 0; layer < model.layers; ++layer)
    linear = linear || model.is_linear(layer);
  const std::int64_t key_heads = model.attention.linear.key_heads;
  require(
      !linear || key_heads >= tensor, Status::resources,
      "model.linear.key_heads = {} cannot be split over {} ranks, each of which needs "
      "one; start at most {} for each stage of --pipeline",
      key_heads, tensor, key_heads);
  return {.pipeline = stages, .tensor = tensor};
}

int generate_batch(comm::World& world, const Arguments& arguments,
                   const PlacementRequest& placement, OpenedModel opened) {
  const config::RunConfig& config = opened.config;
  ModelText text;
  std::optional<data::ChatTemplate> chat;
  PromptFile prompts;
  infer::BatchOptions options;
  comm::MeshShape shape;
  std::optional<GenerationOutput> output;  // on rank 0
  const launch::ComputeDevice on = device_of(world, arguments);
  world.agree([&] {
    const std::string file = arguments.text("--prompts", ""),
                      out = arguments.text("-o", "");
    require(!out.empty(), Status::command_line,
            "--prompts needs -o OUT.jsonl for what comes of them");
    std::error_code ignored;
    require(std::filesystem::exists(file, ignored), Status::missing_input,
            "--prompts {}: there is no such file", file);
    shape = inference_mesh(world, arguments, config.model);
    options = batch_options(arguments, config.precision.compute);
    text = open_text(arguments, config, TextNeed::if_there);
    chat = chat_template(arguments, text);
    prompts = read_prompts(file, generation_defaults(arguments, config.model, text),
                           arguments.integer("--samples", 1, 1, 10000), config.model,
                           text, chat ? &*chat : nullptr);
    if (world.rank() == 0 && !placement.dry_run)
      output.emplace(out, prompts, key_of(opened, on, options, shape));
  });
  if (config.model.any_length()) {
    opened.config.model.sequence = longest_text(prompts.generations);
    opened.config.model.own_positions = 0;
  }
  const std::vector<std::size_t> missing = missing_texts(world, output);
  const std::size_t before =
      placement.dry_run ? 0 : prompts.wanted.size() - missing.size();
  if (missing.empty() &&
      world.broadcast(output && output->complete() ? "1" : "") == "1") {
    log::info("{} has all {} texts already", arguments.text("-o", ""), before);
    return 0;
  }
  if (before > 0) log::info("going on behind {} finished texts", before);
  const kernels::Runtime runtime(0, world.ranks_on_node());
  comm::Mesh mesh(world, shape, {}, on.device,
                  transport_of_batch(on.transport, shape.tensor));
  comm::Group& pipeline = mesh.group(comm::Axis::pipeline);
  const ModelUse use{
      config.model.positions(),
      [&](const infer::LoadedModel& meta) {
        const infer::BatchGenerator batch(meta, pipeline, options, prompts.generations);
        return batch.bytes() + (on.device.is_cuda() ? batch.kernel_bytes() : 0);
      },
      "steps"};
  const auto model =
      load_model(world, arguments, placement, opened, mesh, on.device, use);
  if (model == nullptr) return 0;
  std::optional<infer::BatchGenerator> batch;
  world.agree([&] { batch.emplace(*model, pipeline, options, prompts.generations); });
  run_batch(world, *batch, prompts, missing, text, output);
  return 0;
}

}  // namespace trireme::app
