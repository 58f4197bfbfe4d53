// The questions of `trireme init`, their defaults and what they take.
// SPDX-License-Identifier: Apache-2.0
#include "app/init_answers.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "app/init_data.hpp"
#include "app/tokenizer_option.hpp"
#include "base/cpu_place.hpp"
#include "base/cuda_devices.hpp"
#include "base/error.hpp"
#include "base/number.hpp"
#include "launch/memory_limit.hpp"

namespace trireme::app {
namespace {

// Shapes after Brown et al., 2020, table 2.1, as Llamas: heads of 64 to 128.
struct Size {
  std::string_view word;
  std::int64_t layers, hidden, heads, kv_heads, sequence;
};
constexpr std::array sizes = {
    Size{"small", 4, 128, 4, 2, 128},     Size{"125m", 12, 768, 12, 12, 2048},
    Size{"350m", 24, 1024, 16, 16, 2048}, Size{"1.3b", 24, 2048, 16, 16, 2048},
    Size{"2.7b", 32, 2560, 20, 20, 2048}, Size{"6.7b", 32, 4096, 32, 32, 2048}};

// Of a larger size without a tokenizer, for synthetic data.
constexpr std::int64_t usual_vocabulary = 32000;

std::string size_words() {
  std::string words;
  for (const Size& size : sizes)
    words += format("{}{}", words.empty() ? "" : ", ", size.word);
  return words;
}

// A size has as many tokens as its data.
void settle_vocabulary(const Arguments& arguments, InitAnswers& out) {
  std::int64_t& vocabulary = out.model.model.vocabulary;
  if (!out.tokenizer.empty() && vocabulary == 0)
    vocabulary = arguments.has("--tokenizer")
                     ? tokenizer_option(arguments).vocabulary()
                     : text::Tokenizer(out.tokenizer).vocabulary();
  if (out.source == "bytes" && vocabulary == 0) vocabulary = byte_tokens;
  if (vocabulary == 0)
    vocabulary = out.model.name == sizes[0].word ? byte_tokens : usual_vocabulary;
}

void ask_model(const Arguments& arguments, Interview& interview, InitAnswers& out) {
  const auto take = [&](const std::string& word) {
    if (is_size(word)) {
      out.model = sized_model(word);
      return;
    }
    try {
      out.model = read_named_model(word);
    } catch (const Error& error) {
      if (error.status() != Status::missing_input) throw;
      throw Error(error.status(),
                  format("{}; the sizes are {}", error.what(), size_words()));
    }
  };
  if (!arguments.words().empty()) return take(arguments.words().front());
  interview.ask("--model",
                format("Which model? A Hugging Face folder, its config.json, a name of "
                       "inputs/models such as llama-3.2-1b, or a size: {}.",
                       size_words()),
                "small", take);
}

void ask_part(const Arguments& arguments, Interview& interview, InitAnswers& out) {
  if (out.model.weights.empty()) {
    const std::string word = arguments.text("--train", "new");
    require(
        word == "new", Status::command_line,
        "--train {}: {} has no weights here to go on from: leave --train out, or name "
        "a folder that has them",
        word, out.model.name);
    return;
  }
  interview.ask("--train",
                "What is trained? all: its weights; lora: adapters beside them, in a "
                "fraction of the memory; new: a new model of its shape.",
                "lora", [&](const std::string& word) {
                  require(word == "all" || word == "lora" || word == "new",
                          Status::command_line,
                          "--train {}: is none of all, lora and new", word);
                  out.part = word == "all"    ? TrainedPart::all_weights
                             : word == "lora" ? TrainedPart::adapters
                                              : TrainedPart::new_model;
                });
}

// Ranks that the batch system gave, or those of a node.
std::int64_t usual_ranks(const InitMachine& on) {
  const char* tasks = std::getenv("SLURM_NTASKS");
  if (tasks != nullptr)
    if (const auto count = parse_number<std::int64_t>(tasks); count && *count > 0)
      return std::min<std::int64_t>(*count, 1 << 24);
  return on.node_ranks;
}

std::int64_t multiple_of(std::int64_t ranks, std::int64_t about) {
  return ranks * std::max<std::int64_t>(1, about / ranks);
}

}  // namespace

bool is_size(const std::string& word) {
  return std::any_of(sizes.begin(), sizes.end(),
                     [&](const Size& size) { return size.word == word; });
}

NamedModel sized_model(const std::string& word) {
  const Size& size = *std::find_if(sizes.begin(), sizes.end(),
                                   [&](const Size& one) { return one.word == word; });
  NamedModel out;
  out.name = word;
  out.what = format("a Llama, {} layers of width {}, {} heads", size.layers, size.hidden,
                    size.heads);
  model::ModelConfig& m = out.model;
  m.layers = size.layers;
  m.hidden = size.hidden;
  m.heads = size.heads;
  m.kv_heads = size.kv_heads;
  m.feed_forward = (8 * size.hidden / 3 + 63) / 64 * 64;
  m.sequence = size.sequence;
  return out;
}

InitMachine look_at_machine(const Arguments& arguments) {
  InitMachine on;
  on.cores = static_cast<std::int64_t>(std::max<std::size_t>(allowed_cores().size(), 1));
  if (arguments.has("--machine")) {
    on.machine = plan::read_machine(arguments.text("--machine", ""));
    on.measured = true;
    on.node_ranks = on.machine.ranks_per_node;
    on.memory_from = format("the machine file of '{}'", on.machine.name);
    return on;
  }
  std::vector<CudaDevice> gpus = cuda_devices();
  std::erase_if(gpus, [](const CudaDevice& gpu) { return gpu.emulated; });
  on.machine = plan::nominal_machine(!gpus.empty());
  on.machine.name = describe_node();
  on.node_ranks = gpus.empty() ? on.cores : std::ssize(gpus);
  on.machine.ranks_per_node = on.node_ranks;
  const launch::MemoryLimit limit = launch::node_memory_limit();
  const double share =
      static_cast<double>(limit.bytes) / static_cast<double>(on.node_ranks);
  if (!gpus.empty()) {
    on.machine.memory_bytes = static_cast<double>(gpus.front().memory_bytes);
    on.machine.host_memory_bytes = share;
    on.memory_from = gpus.front().name;
    return on;
  }
  on.machine.memory_bytes = share;
  on.memory_from = limit.from;
  return on;
}

double rank_memory(const InitMachine& on, int ranks) {
  if (on.measured || on.machine.gpus) return on.machine.memory_bytes;
  return on.machine.memory_bytes * static_cast<double>(on.node_ranks) / ranks;
}

InitAnswers ask_all(const Arguments& arguments, Interview& interview,
                    const InitMachine& on) {
  InitAnswers out;
  ask_model(arguments, interview, out);
  ask_part(arguments, interview, out);
  interview.ask("--data",
                "Which files to train on, with commas between them? Text, JSON lines, "
                "folders of either, or token files; synthetic: none, to try out.",
                "synthetic",
                [&](const std::string& answer) { take_data(answer, arguments, out); });
  settle_vocabulary(arguments, out);
  out.ranks = static_cast<int>(interview.ask_number(
      "--ranks", format("How many ranks? A node has {} for this.", on.node_ranks),
      usual_ranks(on), 1, 1 << 24));
  const bool fresh = out.part == TrainedPart::new_model;
  const std::int64_t positions = sequence_of(out.model, {});
  if (out.model.model.rotary())
    out.sequence = interview.ask_number("--sequence", "How many tokens has a sequence?",
                                        std::min<std::int64_t>(positions, 2048), 1,
                                        fresh ? 1 << 20 : out.model.model.sequence);
  else
    out.sequence = positions;  // they are learned
  out.batch = interview.ask_number("--batch", "How many sequences has a step?",
                                   multiple_of(out.ranks, fresh ? 64 : 16), 1,
                                   std::int64_t{65'536} * out.ranks);
  out.steps = interview.ask_number("--steps", "How many steps?", fresh ? 1000 : 200, 1,
                                   1'000'000'000'000);
  return out;
}

}  // namespace trireme::app
