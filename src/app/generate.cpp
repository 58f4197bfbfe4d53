// `trireme generate MODEL --prompt TEXT ...`: continues a text, in tokens or bytes.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <optional>
#include <string_view>

#include "app/adapters.hpp"
#include "app/app.hpp"
#include "app/deck_arguments.hpp"
#include "app/generate_batch.hpp"
#include "app/generation_options.hpp"
#include "app/model_text.hpp"
#include "app/placement_options.hpp"
#include "base/log.hpp"
#include "base/out_of_memory.hpp"
#include "base/output.hpp"
#include "infer/generator.hpp"
#include "kernels/runtime/runtime.hpp"

namespace trireme::app {
namespace {

constexpr std::string_view usage =
    "trireme generate MODEL (--prompt TEXT | --prompt-tokens 1,2,3 | --prompts "
    "FILE.jsonl "
    "-o OUT.jsonl) [--tokenizer F] [--tokens N] [--temperature X] [--top-k N] [--top-p "
    "X] "
    "[--min-p X] [--typical-p X] [--repetition-penalty X] [--seed N] [--pipeline N] "
    "[--adapter DIR[=WEIGHT],...] [--weights auto|codes|numbers] "
    "[--device auto|cpu|cuda] [--device-map "
    "auto|balanced|balanced_low_0|sequential|FILE] [--max-memory gpu0=SIZE,cpu=SIZE] "
    "[--dry-run]; with --prompts also "
    "[--samples N] [--chat-template F] "
    "[--texts N] [--step-tokens N] [--chunk N] [--block N] [--cache-bytes SIZE] "
    "[--cache-dtype T]";
constexpr Option options[] = {{"--prompt", true},        {"--prompt-tokens", true},
                              {"--prompts", true},       {"-o", true},
                              {"--tokenizer", true},     {"--tokens", true},
                              {"--temperature", true},   {"--top-k", true},
                              {"--top-p", true},         {"--min-p", true},
                              {"--typical-p", true},     {"--repetition-penalty", true},
                              {"--seed", true},          {"--pipeline", true},
                              {"--device", true},        {"--samples", true},
                              {"--chat-template", true}, {"--texts", true},
                              {"--step-tokens", true},   {"--chunk", true},
                              {"--block", true},         {"--cache-bytes", true},
                              {"--cache-dtype", true},   {"--adapter", true},
                              {"--weights", true},       {"--device-map", true},
                              {"--max-memory", true},    {"--dry-run", false}};

struct Request {
  std::vector<std::int32_t> prompt;
  GenerationDefaults how;
};

Request parse_request(const Arguments& arguments, const config::RunConfig& config,
                      const ModelText& text) {
  for (const char* option :
       {"-o", "--samples", "--chat-template", "--texts", "--step-tokens", "--chunk",
        "--block", "--cache-bytes", "--cache-dtype"})
    require(!arguments.has(option), Status::command_line, "{} goes with --prompts{}",
            option, usage_below(usage));
  Request request;
  if (!arguments.has("--prompt"))
    request.prompt =
        parse_ids(arguments.text("--prompt-tokens", ""), config.model.vocabulary);
  else
    request.prompt =
        text.encode(arguments.text("--prompt", ""), text::SpecialTokens::add);
  require(!request.prompt.empty(), Status::command_line, "the prompt is empty");
  request.how = generation_defaults(arguments, config.model, text);
  return request;
}

// Writes tokens to standard output as they come: text by a tokenizer or of byte tokens,
// else ids.
class Printer {
 public:
  Printer(bool speaks, const ModelText& text, std::vector<std::int32_t> ends)
      : speaks_(speaks), text_(text), ends_(std::move(ends)) {
    if (text.tokenizer)
      stream_ = std::make_unique<text::StreamDecoder>(*text.tokenizer, true);
  }
  bool ends(std::int32_t token) const {
    return std::find(ends_.begin(), ends_.end(), token) != ends_.end();
  }
  void put(std::int32_t token) {
    if (!speaks_) return;
    if (stream_) {
      // A model's vocabulary may have places that its tokenizer has no token for.
      if (text_.tokenizer->token_of(token) != nullptr) output::write(stream_->put(token));
    } else if (text_.bytes && token < io::end_of_text) {
      output::write(std::string(1, static_cast<char>(token)));
    } else if (!text_.bytes) {
      output::write((first_ ? "" : " ") + std::to_string(token));
    }
    first_ = false;
  }
  void finish() {
    if (speaks_) output::write((stream_ ? stream_->finish() : "") + "\n");
  }

 private:
  bool speaks_, first_ = true;
  const ModelText& text_;
  std::vector<std::int32_t> ends_;
  std::unique_ptr<text::StreamDecoder> stream_;
};

// Whether a file of prompts is given, and no prompt besides.
bool asks_for_many(const Arguments& arguments) {
  int ways = 0;
  for (const char* option : {"--prompt", "--prompt-tokens", "--prompts"})
    ways += arguments.has(option) ? 1 : 0;
  require(ways == 1, Status::command_line,
          "give one of --prompt, --prompt-tokens and --prompts{}", usage_below(usage));
  return arguments.has("--prompts");
}

std::string memory_advice() {
  return "keys and values of a text take memory for the prompt and --tokens: give fewer, "
         "or, with --prompts, a smaller --cache-bytes; weights can lie on a disk "
         "(--device-map), or be shared out over more ranks";
}

}  // namespace

int generate(comm::World& world, const Arguments& given) {
  Arguments arguments = given;
  OpenedModel opened;
  ModelText text;
  Request request;
  comm::MeshShape shape;
  PlacementRequest placement;
  bool batch = false;
  world.agree([&] {
    arguments.parse(usage, options, 1, 1);
    batch = asks_for_many(arguments);
    placement = placement_request(arguments);
    opened = open_model(world, arguments.words().front());
    if (arguments.has("--adapter"))
      opened.tensors =
          with_adapters(std::move(opened.tensors), opened.config.model,
                        parse_adapters("--adapter", arguments.text("--adapter", "")));
    advise_on_memory(memory_advice);
    if (batch) return;
    text = open_text(arguments, opened.config,
                     arguments.has("--prompt") ? TextNeed::always : TextNeed::if_asked);
    request = parse_request(arguments, opened.config, text);
    shape = inference_mesh(world, arguments, opened.config.model);
  });
  if (batch) return generate_batch(world, arguments, placement, std::move(opened));
  const config::RunConfig& config = opened.config;
  const kernels::Runtime runtime(0, world.ranks_on_node());
  const launch::ComputeDevice on = device_of(world, arguments);
  comm::Mesh mesh(world, shape, {}, on.device, on.transport);
  comm::Group& pipeline = mesh.group(comm::Axis::pipeline);
  const std::int64_t wanted =
      static_cast<std::int64_t>(request.prompt.size()) + request.how.tokens;
  const std::int64_t capacity = config.model.positions_for(wanted);
  const ModelUse use{capacity, [&](const infer::LoadedModel& meta) {
                       return infer::Generator(meta, pipeline, capacity).bytes();
                     }};
  const auto model =
      load_model(world, arguments, placement, opened, mesh, on.device, use);
  if (model == nullptr) return 0;
  infer::Generator generator(*model, pipeline, capacity);
  if (world.rank() == 0 && std::ssize(request.prompt) > capacity)
    log::warn_beside_output(
        "the prompt has {} tokens and the model {} positions: what comes first of it is "
        "not read",
        std::ssize(request.prompt), capacity);
  Printer printer(world.rank() == 0, text, request.how.end_tokens);
  for (const auto token : request.prompt) printer.put(token);
  generator.generate(request.prompt, request.how.tokens,
                     infer::Sampler(request.how.sampler), [&](std::int32_t token) {
                       if (printer.ends(token)) return false;
                       printer.put(token);
                       return true;
                     });
  printer.finish();
  return 0;
}

}  // namespace trireme::app
