// Reads options of generation, and generation_config.json for what they leave out.
// SPDX-License-Identifier: Apache-2.0
#include "app/generation_options.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

#include "base/directory.hpp"
#include "base/log.hpp"
#include "base/number.hpp"
#include "convert/model_folder.hpp"
#include "io/json_fields.hpp"
#include "io/plain_file.hpp"

namespace trireme::app {
namespace {

constexpr auto file_name = "generation_config.json";

io::Json read_json(const Directory& folder, const char* name, std::string& source) {
  source = folder.path_of(name);
  const std::string text = io::PlainFile(folder, name, io::Links::followed).text(1 << 24);
  return io::parse_json(text, 32, source);
}

// The model folder's generation_config.json. Where there is none, the end tokens of
// config.json, as transformers does; of other models an empty object.
io::Json read_settings(const std::string& path, std::string& source) {
  if (!convert::is_model_folder(path)) return io::Json::object();
  const Directory folder = Directory::to_read(path);
  if (folder.has(file_name)) return read_json(folder, file_name, source);
  const io::Json config = read_json(folder, "config.json", source);
  io::Json settings = io::Json::object();
  for (const io::Json& part : {config, config.value("text_config", io::Json())})
    if (part.is_object() && part.contains("eos_token_id"))
      settings["eos_token_id"] = part["eos_token_id"];
  return settings;
}

class Settings {
 public:
  explicit Settings(const std::string& path)
      : is_folder_(convert::is_model_folder(path)), json_(read_settings(path, source_)) {
    require(json_.is_object(), Status::bad_content, "{}: is no JSON object", source_);
  }
  double real(const char* key, double fallback, double least, double most) const {
    if (!has(key)) return fallback;
    const auto& value = json_[key];
    const double number = value.is_number() ? value.get<double>() : NAN;
    require(number >= least && number <= most, Status::bad_content,
            "{}: '{}' must be a number from {} to {}, not {}", source_, key, least, most,
            value.dump());
    return number;
  }
  std::int64_t integer(const char* key, std::int64_t fallback, std::int64_t most) const {
    return has(key) ? io::JsonField(json_, source_).at(key).integer(0, most) : fallback;
  }
  // What it asks for that changes texts and is not done here: "num_beams = 4, ...".
  std::string not_done() const {
    struct Setting {
      const char* key;
      io::Json without;  // the value that changes nothing
    };
    static const Setting settings[] = {{"num_beams", 1},
                                       {"num_beam_groups", 1},
                                       {"penalty_alpha", 0},
                                       {"no_repeat_ngram_size", 0},
                                       {"min_length", 0},
                                       {"min_new_tokens", 0},
                                       {"epsilon_cutoff", 0},
                                       {"eta_cutoff", 0},
                                       {"guidance_scale", 1},
                                       {"encoder_repetition_penalty", 1},
                                       {"bad_words_ids", {}},
                                       {"suppress_tokens", {}},
                                       {"stop_strings", {}},
                                       {"begin_suppress_tokens", {}},
                                       {"sequence_bias", {}},
                                       {"forced_bos_token_id", {}},
                                       {"top_h", {}},
                                       {"dola_layers", {}},
                                       {"token_healing", false},
                                       {"exponential_decay_length_penalty", {}},
                                       {"forced_eos_token_id", {}}};
    std::string list;
    for (const auto& [key, without] : settings)
      if (has(key) && json_[key] != without && !json_[key].empty())
        list += format("{}{} = {}", list.empty() ? "" : ", ", key, json_[key].dump());
    return list;
  }
  const std::string& source() const { return source_; }
  // Whether the likeliest token is taken each time: of a folder, unless it says
  // otherwise.
  bool greedy() const {
    if (!has("do_sample")) return is_folder_;
    require(json_["do_sample"].is_boolean(), Status::bad_content,
            "{}: 'do_sample' must be true or false, not {}", source_,
            json_["do_sample"].dump());
    return json_["do_sample"] == false;
  }
  std::vector<std::int32_t> ids(const char* key, std::int64_t vocabulary) const {
    if (!has(key)) return {};
    const io::JsonField field = io::JsonField(json_, source_).at(key);
    std::vector<std::int32_t> all;
    const auto add = [&](const io::JsonField& one) {
      all.push_back(static_cast<std::int32_t>(one.integer(0, vocabulary - 1)));
    };
    if (!json_[key].is_array()) {
      add(field);
    } else {
      for (std::size_t i = 0; i < field.size(); ++i) add(field.at(i));
    }
    return all;
  }

 private:
  bool has(const char* key) const { return json_.contains(key) && !json_[key].is_null(); }
  std::string source_;
  bool is_folder_;
  io::Json json_;
};

}  // namespace

GenerationDefaults generation_defaults(const Arguments& arguments,
                                       const model::ModelConfig& model,
                                       const ModelText& text, std::int64_t usual_tokens) {
  const Settings settings(arguments.words().front());
  // Standard output has the texts.
  if (const std::string left = settings.not_done(); !left.empty())
    log::warn_beside_output(
        "{} asks for {}, which is not done here: texts differ from those of programs "
        "that "
        "do it",
        settings.source(), left);
  GenerationDefaults all;
  infer::SamplerConfig& sampler = all.sampler;
  constexpr double any = 1e6;
  const auto real = [&](const char* option, const char* key, double fallback,
                        double least, double most) {
    return arguments.real(option, settings.real(key, fallback, least, most), least, most);
  };
  sampler.temperature = real("--temperature", "temperature", 0.8, 0.0, any);
  constexpr std::array of_sampling = {"--temperature", "--top-k", "--top-p", "--min-p",
                                      "--typical-p"};
  const bool samples = std::ranges::any_of(
      of_sampling, [&](const char* option) { return arguments.has(option); });
  if (settings.greedy() && !samples) sampler.temperature = 0;
  sampler.top_k =
      arguments.integer("--top-k", settings.integer("top_k", 50, 1 << 30), 0, 1 << 30);
  sampler.top_p = real("--top-p", "top_p", 1.0, 0.0, 1.0);
  sampler.min_p = real("--min-p", "min_p", 0.0, 0.0, 1.0);
  sampler.typical_p = real("--typical-p", "typical_p", 1.0, 1e-9, 1.0);
  sampler.repetition_penalty =
      real("--repetition-penalty", "repetition_penalty", 1.0, 1e-6, any);
  sampler.seed = static_cast<std::uint64_t>(arguments.integer("--seed", 0, 0, INT64_MAX));
  all.tokens = arguments.integer(
      "--tokens", settings.integer("max_new_tokens", usual_tokens, 1 << 24), 0, 1 << 24);
  all.end_tokens = settings.ids("eos_token_id", model.vocabulary);
  if (const auto end = text.end_token();
      end && *end < model.vocabulary &&
      std::find(all.end_tokens.begin(), all.end_tokens.end(), *end) ==
          all.end_tokens.end())
    all.end_tokens.push_back(*end);
  return all;
}

infer::BatchOptions batch_options(const Arguments& arguments, DType compute) {
  infer::BatchOptions options;
  options.texts = arguments.integer("--texts", options.texts, 1, 1 << 16);
  options.step_tokens = arguments.integer(
      "--step-tokens", std::max(options.step_tokens, options.texts), 1, 1 << 20);
  options.chunk = arguments.integer(
      "--chunk", std::min(options.chunk, options.step_tokens), 1, 1 << 20);
  require(options.chunk <= options.step_tokens, Status::command_line,
          "--chunk {} does not fit into the {} tokens of a step: give a larger "
          "--step-tokens or a smaller --chunk",
          options.chunk, options.step_tokens);
  options.block = arguments.integer("--block", options.block, 1, 4096);
  if (arguments.has("--cache-bytes"))
    options.cache_bytes =
        parse_bytes("--cache-bytes", arguments.text("--cache-bytes", ""));
  const std::string type = arguments.text("--cache-dtype", "auto");
  struct Word {
    std::string_view name;
    DType type;
  };
  const std::array words = {Word{"auto", compute},    Word{"fp64", DType::f64},
                            Word{"fp32", DType::f32}, Word{"bf16", DType::bf16},
                            Word{"fp16", DType::f16}, Word{"fp8", DType::e4m3},
                            Word{"int8", DType::u8}};
  const auto* found = std::find_if(words.begin(), words.end(),
                                   [&](const Word& word) { return word.name == type; });
  require(found != words.end(), Status::command_line,
          "--cache-dtype '{}' is none of auto, fp64, fp32, bf16, fp16, fp8 and int8",
          type);
  options.cache.type = found->type;
  return options;
}

std::int64_t parse_bytes(std::string_view option, const std::string& text) {
  std::size_t digits = 0;
  while (digits < text.size() &&
         (std::isdigit(static_cast<unsigned char>(text[digits])) != 0 ||
          text[digits] == '.'))
    ++digits;
  std::string_view unit(text);
  unit.remove_prefix(digits);
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  struct Unit {
    std::string_view name;
    double bytes;
  };
  constexpr std::array units = {
      Unit{"", 1},         Unit{"B", 1},       Unit{"KB", 1e3},     Unit{"MB", 1e6},
      Unit{"GB", 1e9},     Unit{"TB", 1e12},   Unit{"KiB", 0x1p10}, Unit{"MiB", 0x1p20},
      Unit{"GiB", 0x1p30}, Unit{"TiB", 0x1p40}};
  const auto* found = std::find_if(units.begin(), units.end(),
                                   [&](const Unit& one) { return one.name == unit; });
  const auto number = parse_number<double>(std::string_view(text).substr(0, digits));
  require(
      number && found != units.end() && *number >= 0 && *number * found->bytes < 0x1p62,
      Status::command_line, "{} '{}': a size such as 4GiB, 500MB or 1000 is expected",
      option, text);
  return static_cast<std::int64_t>(*number * found->bytes);
}

}  // namespace trireme::app
