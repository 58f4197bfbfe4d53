// NamedModel: folders, config.json, checkpoints and names as models, and decks of them.
// SPDX-License-Identifier: Apache-2.0
#include "app/named_model.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "app/deck_arguments.hpp"
#include "app/shell.hpp"
#include "base/path.hpp"
#include "config/keys.hpp"
#include "config/start_model.hpp"
#include "convert/model_folder.hpp"
#include "io/checkpoint_manifest.hpp"
#include "io/deck_toml.hpp"
#include "io/files.hpp"
#include "text/tokenizer.hpp"

namespace trireme::app {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t most_config_bytes = 16 << 20, usual_sequence = 4096;
constexpr std::string_view models_folder = "inputs/models";

// Where inputs/models may be: here, installed, or in the tree of sources that
// build/<preset> lies in.
std::vector<fs::path> model_folders() {
  std::vector<fs::path> all = {fs::path(models_folder)};
  const std::string program = path_of_program();
  if (program.empty()) return all;
  const fs::path beside = fs::path(program).parent_path();
  all.push_back(beside.parent_path() / "share" / "trireme" / models_folder);
  all.push_back(beside.parent_path().parent_path() / models_folder);
  return all;
}

std::string name_of_folder(const std::string& path) {
  fs::path folder = fs::absolute(path).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();
  return plain_name(folder.filename().string());
}

std::string tokenizer_of(const std::string& folder) {
  return text::tokenizer_file_in(folder) ? folder : "";
}

NamedModel of_config(const convert::FolderConfig& config) {
  NamedModel out;
  out.what = std::string(config.row->class_name);
  out.model = config.model;
  out.dtype = config.dtype;
  return out;
}

NamedModel of_deck(const std::string& path) {
  NamedModel out;
  out.name = fs::path(path).stem().string();
  const config::LoadedRun run = config::load_run(path, {}, 1, 0, read_model);
  out.model = run.config.model;
  out.weights = run.config.start_from;
  if (!out.weights.empty() && convert::is_model_folder(out.weights))
    out.tokenizer = tokenizer_of(out.weights);
  return out;
}

NamedModel of_folder(const std::string& path) {
  if (!convert::is_model_folder(path)) {
    const io::CheckpointReader reader(path, io::no_digests);
    NamedModel out;
    out.model = checkpoint_config(reader).model;
    out.weights = path;
    return out;
  }
  NamedModel out = of_config(convert::read_folder_config(path));
  const auto names = io::names_in(path);
  if (std::any_of(names.begin(), names.end(),
                  [](const std::string& name) { return name.ends_with(".safetensors"); }))
    out.weights = path;
  out.tokenizer = tokenizer_of(path);
  return out;
}

}  // namespace

std::string plain_name(std::string text) {
  for (char& letter : text)
    if (std::isalnum(static_cast<unsigned char>(letter)) == 0 && letter != '.' &&
        letter != '_')
      letter = '-';
  return text.empty() ? "model" : text;
}

std::string model_deck_path(const std::string& name) {
  if (name.empty() || name.find('/') != std::string::npos) return "";
  std::error_code ignored;
  for (const fs::path& folder : model_folders()) {
    const fs::path path = folder / (name + ".toml");
    if (fs::is_regular_file(path, ignored)) return path.string();
  }
  return "";
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const fs::path& folder : model_folders())
    for (const auto& entry : fs::directory_iterator(folder, ignored))
      if (entry.path().extension() == ".toml")
        names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

bool names_model(const std::string& word) {
  std::error_code ignored;
  if (fs::is_directory(word, ignored) || word.ends_with(".json")) return true;
  return !fs::exists(word, ignored) && !model_deck_path(word).empty();
}

NamedModel read_named_model(const std::string& word) {
  std::error_code ignored;
  const bool there = fs::exists(word, ignored);
  NamedModel out;
  if (fs::is_directory(word, ignored)) {
    out = of_folder(word);
    out.name = name_of_folder(word);
  } else if (word.ends_with(".toml") && there) {
    out = of_deck(word);
  } else if (there || word.ends_with(".json")) {
    out = of_config(
        convert::parse_folder_config(io::read_text(word, most_config_bytes), word));
    out.name = name_of_folder(fs::absolute(word).parent_path().string());
  } else {
    const std::string deck = model_deck_path(word);
    require(!deck.empty(), Status::missing_input,
            "{}: there is no such folder, config.json or deck, and no model of that name "
            "in inputs/models",
            word);
    out = of_deck(deck);
    out.weights.clear();
  }
  const model::ModelConfig& m = out.model;
  out.what = format("{}{} layers of width {}, {} heads ({} key/value), vocabulary {}",
                    out.what.empty() ? "" : out.what + ", ", m.layers, m.hidden, m.heads,
                    m.kv_heads, m.vocabulary);
  return out;
}

DeckWishes read_wishes(const Arguments& arguments) {
  DeckWishes wishes;
  wishes.sequence = arguments.integer("--sequence", 0, 1, 1 << 30);
  wishes.batch = arguments.integer("--batch", 0, 1, 1 << 30);
  wishes.compute = arguments.text("--precision", "");
  require(wishes.compute.empty() ||
              config::key::precision.compute.find(wishes.compute) != nullptr,
          Status::command_line, "--precision {}: is none of {}", wishes.compute,
          config::key::precision.compute.choices);
  return wishes;
}

std::int64_t sequence_of(const NamedModel& named, const DeckWishes& wishes) {
  const std::int64_t positions = named.model.positions();
  if (wishes.sequence == 0)
    return named.model.rotary() ? std::min(positions, usual_sequence) : positions;
  require(named.model.any_length() || wishes.sequence <= positions, Status::command_line,
          "--sequence {}: the model has {} positions", wishes.sequence, positions);
  return wishes.sequence;
}

std::string compute_of(const NamedModel& named, const DeckWishes& wishes) {
  if (!wishes.compute.empty()) return wishes.compute;
  if (named.dtype == DType::f16) return "fp16";
  if (named.dtype == DType::f32) return "fp32";
  return "bf16";
}

std::vector<std::string> plan_lines(const NamedModel& named, const DeckWishes& wishes,
                                    int ranks) {
  model::ModelConfig model = named.model;
  model.set_sequence(sequence_of(named, wishes));
  std::vector<std::string> lines = config::model_lines(model);
  const auto add = [&](const std::string& line) { lines.push_back(line); };
  add(format("run.name = {}", io::quote_toml(named.name)));
  add("run.steps = 1000");
  add("data.source = \"synthetic\"");
  add(format("batch.global = {}", wishes.batch > 0 ? wishes.batch : ranks));
  add("batch.micro = 1");
  add(format("precision.compute = \"{}\"", compute_of(named, wishes)));
  if (ranks > 1) add("parallel.sharding_strategy = \"FULL_SHARD\"");
  return lines;
}

std::string plan_deck(const NamedModel& named, const DeckWishes& wishes, int ranks) {
  std::string text;
  for (const std::string& line : plan_lines(named, wishes, ranks)) text += line + "\n";
  return text;
}

}  // namespace trireme::app
