// `trireme generate MODEL --prompt TEXT ...`.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <optional>
#include <string_view>

#include "app/app.hpp"
#include "app/deck_arguments.hpp"
#include "base/number.hpp"
#include "base/output.hpp"
#include "infer/generator.hpp"
#include "kernels/runtime/runtime.hpp"

namespace trireme::app {
namespace {

constexpr std::string_view usage =
    "trireme generate MODEL (--prompt TEXT | --prompt-tokens 1,2,3) [--tokens N] "
    "[--temperature X] [--top-k N] [--top-p X] [--seed N] [--device auto|cpu|cuda]";
constexpr Option options[] = {{"--prompt", true}, {"--prompt-tokens", true},
                              {"--tokens", true}, {"--temperature", true},
                              {"--top-k", true},  {"--top-p", true},
                              {"--seed", true},   {"--device", true}};

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

Request parse_request(const Arguments& arguments, const config::RunConfig& config) {
  const bool bytes = config.data.kind == io::SourceKind::bytes;
  const bool text = arguments.has("--prompt");
  require(text != arguments.has("--prompt-tokens"), Status::command_line,
          "give one of --prompt and --prompt-tokens\nusage: {}", usage);
  require(
      !text || bytes, Status::command_line,
      "the model was trained on token ids (data.source = \"{}\"): give --prompt-tokens",
      name_of(config.data.kind));
  Request request;
  if (text) {
    for (const char c : arguments.text("--prompt", "")) {
      request.prompt.push_back(static_cast<unsigned char>(c));
    }
  } else {
    request.prompt =
        parse_ids(arguments.text("--prompt-tokens", ""), config.model.vocabulary);
  }
  require(!request.prompt.empty(), Status::command_line, "the prompt is empty");
  request.count = arguments.integer("--tokens", 100, 0, 1 << 24);
  request.sampler.temperature = arguments.real("--temperature", 0.8, 0.0, 1e6);
  request.sampler.top_k = arguments.integer("--top-k", 0, 0, 1 << 30);
  request.sampler.top_p = arguments.real("--top-p", 1.0, 0.0, 1.0);
  request.sampler.seed =
      static_cast<std::uint64_t>(arguments.integer("--seed", 0, 0, INT64_MAX));
  return request;
}

// Writes tokens to standard output as they come: text of byte tokens, or ids.
class Printer {
 public:
  Printer(bool speaks, bool bytes) : speaks_(speaks), bytes_(bytes) {}
  void put(std::int32_t token) {
    if (!speaks_) return;
    if (bytes_ && token < io::end_of_text) {
      output::write(std::string(1, static_cast<char>(token)));
    } else if (!bytes_) {
      output::write((first_ ? "" : " ") + std::to_string(token));
    }
    first_ = false;
  }

 private:
  bool speaks_, bytes_, first_ = true;
};

}  // namespace

int generate(comm::World& world, const Arguments& given) {
  Arguments arguments = given;
  std::unique_ptr<io::TensorSource> tensors;
  config::RunConfig config;
  Request request;
  world.agree([&] {
    arguments.parse(usage, options, 1, 1);
    OpenedModel opened = open_model(world, arguments.words().front());
    tensors = std::move(opened.tensors);
    config = opened.config;
    request = parse_request(arguments, config);
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
  Printer printer(world.rank() == 0, config.data.kind == io::SourceKind::bytes);
  for (const auto token : request.prompt) printer.put(token);
  generator.generate(
      request.prompt, request.count, infer::Sampler(request.sampler),
      [&](std::int32_t token) {
        if (config.data.kind == io::SourceKind::bytes && token == io::end_of_text)
          return false;
        printer.put(token);
        return true;
      });
  if (world.rank() == 0) output::write("\n");
  return 0;
}

}  // namespace trireme::app
