// `trireme generate MODEL --prompt TEXT ...`: continues a text, in tokens or bytes.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <optional>
#include <string_view>

#include "app/adapters.hpp"
#include "app/app.hpp"
#include "app/deck_arguments.hpp"
#include "base/directory.hpp"
#include "base/number.hpp"
#include "base/output.hpp"
#include "convert/model_folder.hpp"
#include "infer/generator.hpp"
#include "kernels/runtime/runtime.hpp"
#include "text/tokenizer.hpp"

namespace trireme::app {
namespace {

constexpr std::string_view usage =
    "trireme generate MODEL (--prompt TEXT | --prompt-tokens 1,2,3) [--tokenizer F] "
    "[--tokens N] [--temperature X] [--top-k N] [--top-p X] [--seed N] "
    "[--adapter DIR[=WEIGHT],...] [--device auto|cpu|cuda]";
constexpr Option options[] = {{"--prompt", true},      {"--prompt-tokens", true},
                              {"--tokenizer", true},   {"--tokens", true},
                              {"--temperature", true}, {"--top-k", true},
                              {"--top-p", true},       {"--seed", true},
                              {"--device", true},      {"--adapter", true}};

struct Request {
  std::vector<std::int32_t> prompt;
  std::int64_t count = 0;
  infer::SamplerConfig sampler;
};

std::vector<std::int32_t> parse_ids(const std::string& text, std::int64_t vocabulary) {
  std::vector<std::int32_t> ids;
  std::string_view rest = text;
  for (bool more = !rest.empty(); more;) {
    const auto comma = rest.find(',');
    const std::string_view word = rest.substr(0, comma);
    const auto id = parse_number<std::int64_t>(word);
    require(id && *id >= 0 && *id < vocabulary, Status::command_line,
            "--prompt-tokens: '{}' is no token of a vocabulary of {}", word, vocabulary);
    ids.push_back(static_cast<std::int32_t>(*id));
    more = comma != std::string_view::npos;
    if (more) rest.remove_prefix(comma + 1);
  }
  return ids;
}

// The tokenizer that --tokenizer names, else the run's own, else that of a model folder.
std::string tokenizer_path(const Arguments& arguments, const config::RunConfig& config) {
  if (arguments.has("--tokenizer")) return arguments.text("--tokenizer", "");
  if (!config.data.tokenizer.empty()) return config.data.tokenizer;
  const std::string model = arguments.words().front();
  if (!convert::is_model_folder(model)) return "";
  const Directory folder = Directory::to_read(model);
  for (const char* name : {"tokenizer.json", "tokenizer.model", "spiece.model"})
    if (folder.has(name)) return model;
  return "";
}

// What turns words into tokens and back: a tokenizer, or null where bytes are tokens, or
// where only ids are given and wanted.
std::optional<text::Tokenizer> open_tokenizer(const Arguments& arguments,
                                              const config::RunConfig& config) {
  const bool words = arguments.has("--prompt");
  require(words != arguments.has("--prompt-tokens"), Status::command_line,
          "give one of --prompt and --prompt-tokens\nusage: {}", usage);
  const bool bytes = config.data.kind == io::SourceKind::bytes;
  require(!bytes || !arguments.has("--tokenizer"), Status::command_line,
          "--tokenizer: the model was trained on bytes, which need none");
  if (bytes || (!words && !arguments.has("--tokenizer"))) return {};
  const std::string path = tokenizer_path(arguments, config);
  require(
      !path.empty(), Status::command_line,
      "the model was trained on token ids (data.source = \"{}\"): give --tokenizer, or "
      "--prompt-tokens",
      name_of(config.data.kind));
  text::Tokenizer tokenizer(path);
  require(
      tokenizer.vocabulary() <= config.model.vocabulary, Status::bad_content,
      "{}: has {} tokens, more than the model's vocabulary of {}: it is another model's",
      path, tokenizer.vocabulary(), config.model.vocabulary);
  return tokenizer;
}

Request parse_request(const Arguments& arguments, const config::RunConfig& config,
                      const std::optional<text::Tokenizer>& tokenizer) {
  Request request;
  const std::string text = arguments.text("--prompt", "");
  if (!arguments.has("--prompt"))
    request.prompt =
        parse_ids(arguments.text("--prompt-tokens", ""), config.model.vocabulary);
  else if (tokenizer)
    request.prompt = tokenizer->encode(text, true);
  else
    for (const char c : text) request.prompt.push_back(static_cast<unsigned char>(c));
  require(!request.prompt.empty(), Status::command_line, "the prompt is empty");
  request.count = arguments.integer("--tokens", 100, 0, 1 << 24);
  request.sampler.temperature = arguments.real("--temperature", 0.8, 0.0, 1e6);
  request.sampler.top_k = arguments.integer("--top-k", 0, 0, 1 << 30);
  request.sampler.top_p = arguments.real("--top-p", 1.0, 0.0, 1.0);
  request.sampler.seed =
      static_cast<std::uint64_t>(arguments.integer("--seed", 0, 0, INT64_MAX));
  return request;
}

// Writes tokens to standard output as they come: text by a tokenizer or of byte tokens,
// else ids. `end`: the token that ends a text.
class Printer {
 public:
  Printer(bool speaks, bool bytes, const std::optional<text::Tokenizer>& tokenizer)
      : speaks_(speaks), bytes_(bytes), tokenizer_(tokenizer) {
    if (bytes) end_ = io::end_of_text;
    if (!tokenizer) return;
    stream_ = std::make_unique<text::StreamDecoder>(*tokenizer, true);
    end_ = tokenizer->end_token();
  }
  bool ends(std::int32_t token) const { return end_ == token; }
  void put(std::int32_t token) {
    if (!speaks_) return;
    if (stream_) {
      // A model's vocabulary may have places that its tokenizer has no token for.
      if (tokenizer_->token_of(token) != nullptr) output::write(stream_->put(token));
    } else if (bytes_ && token < io::end_of_text) {
      output::write(std::string(1, static_cast<char>(token)));
    } else if (!bytes_) {
      output::write((first_ ? "" : " ") + std::to_string(token));
    }
    first_ = false;
  }
  void finish() {
    if (speaks_) output::write((stream_ ? stream_->finish() : "") + "\n");
  }

 private:
  bool speaks_, bytes_, first_ = true;
  const std::optional<text::Tokenizer>& tokenizer_;
  std::unique_ptr<text::StreamDecoder> stream_;
  std::optional<std::int32_t> end_;
};

}  // namespace

int generate(comm::World& world, const Arguments& given) {
  Arguments arguments = given;
  std::unique_ptr<io::TensorSource> tensors;
  config::RunConfig config;
  Request request;
  std::optional<text::Tokenizer> tokenizer;
  world.agree([&] {
    arguments.parse(usage, options, 1, 1);
    OpenedModel opened = open_model(world, arguments.words().front());
    config = opened.config;
    tensors = std::move(opened.tensors);
    if (arguments.has("--adapter"))
      tensors =
          with_adapters(std::move(tensors), config.model,
                        parse_adapters("--adapter", arguments.text("--adapter", "")));
    tokenizer = open_tokenizer(arguments, config);
    request = parse_request(arguments, config, tokenizer);
    require(config.model.heads % world.size() == 0, Status::resources,
            "model.heads = {} cannot be split over {} ranks; start a divisor of it",
            config.model.heads, world.size());
  });
  const kernels::Runtime runtime(0, world.ranks_on_node());
  const launch::ComputeDevice on = device_of(world, arguments);
  comm::Mesh mesh(world, {.tensor = world.size()}, {}, on.device, on.transport);
  const std::int64_t wanted =
      static_cast<std::int64_t>(request.prompt.size()) + request.count;
  const std::int64_t capacity = std::min(config.model.sequence, wanted);
  std::optional<infer::LoadedModel> model;
  world.agree([&] {
    model.emplace(config.model, config.precision.compute, mesh.group(comm::Axis::tensor),
                  capacity, *tensors, on.device);
  });
  infer::Generator generator(*model, capacity);
  Printer printer(world.rank() == 0, config.data.kind == io::SourceKind::bytes,
                  tokenizer);
  for (const auto token : request.prompt) printer.put(token);
  generator.generate(request.prompt, request.count, infer::Sampler(request.sampler),
                     [&](std::int32_t token) {
                       if (printer.ends(token)) return false;
                       printer.put(token);
                       return true;
                     });
  printer.finish();
  return 0;
}

}  // namespace trireme::app
