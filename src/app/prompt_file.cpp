// Reads prompts line by line; every error names the line.
// SPDX-License-Identifier: Apache-2.0
#include "app/prompt_file.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "io/digest.hpp"
#include "io/json_fields.hpp"
#include "io/json_lines.hpp"

namespace trireme::app {
namespace {

constexpr std::array fields = {
    "prompt", "prompt_tokens", "messages",    "id",
    "tokens", "samples",       "temperature", "top_k",
    "top_p",  "min_p",         "typical_p",   "repetition_penalty",
    "seed",   "stop",          "stop_tokens", "logprobs"};

// What one line asks for.
class PromptLine {
 public:
  PromptLine(const io::Json& json, const std::string& source)
      : json_(json), source_(source) {
    for (const auto& [key, value] : json.items())
      require(
          std::find_if(fields.begin(), fields.end(),
                       [&, name = key](const char* field) { return name == field; }) !=
              fields.end(),
          Status::bad_content,
          "{}: '{}' is no field of a prompt: there are prompt, "
          "prompt_tokens, messages, id, tokens, samples, temperature, top_k, top_p, "
          "min_p, typical_p, repetition_penalty, seed, stop, stop_tokens and logprobs",
          source, key);
  }

  bool has(const char* key) const { return json_.contains(key) && !json_[key].is_null(); }
  const io::Json& value(const char* key) const { return json_[key]; }
  std::int64_t integer(const char* key, std::int64_t fallback, std::int64_t least,
                       std::int64_t most) const {
    return has(key) ? field(key).integer(least, most) : fallback;
  }
  double real(const char* key, double fallback, double least, double most) const {
    if (!has(key)) return fallback;
    const double number = json_[key].is_number() ? json_[key].get<double>() : NAN;
    require(number >= least && number <= most, Status::bad_content,
            "{}: '{}' must be a number from {} to {}, not {}", source_, key, least, most,
            shown(json_[key]));
    return number;
  }
  std::vector<std::int32_t> ids(const char* key, std::int64_t vocabulary) const {
    std::vector<std::int32_t> all;
    if (!has(key)) return all;
    const io::JsonField list = field(key);
    for (std::size_t i = 0; i < list.size(); ++i)
      all.push_back(static_cast<std::int32_t>(list.at(i).integer(0, vocabulary - 1)));
    return all;
  }
  std::vector<std::string> texts(const char* key) const {
    std::vector<std::string> all;
    if (!has(key)) return all;
    if (json_[key].is_string()) return {json_[key].get<std::string>()};
    const io::JsonField list = field(key);
    for (std::size_t i = 0; i < list.size(); ++i) all.push_back(list.at(i).text());
    return all;
  }
  io::JsonField field(const char* key) const {
    return io::JsonField(json_, source_).at(key);
  }
  const std::string& source() const { return source_; }

 private:
  static std::string shown(const io::Json& value) {
    std::string text =
        value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
    return text.size() > 60 ? text.substr(0, 60) + "..." : text;
  }
  const io::Json& json_;
  std::string source_;
};

std::vector<std::int32_t> prompt_of(const PromptLine& line,
                                    const model::ModelConfig& model,
                                    const ModelText& text,
                                    const data::ChatTemplate* chat) {
  const int given = static_cast<int>(line.has("prompt")) +
                    static_cast<int>(line.has("prompt_tokens")) +
                    static_cast<int>(line.has("messages"));
  require(given == 1, Status::bad_content,
          "{}: one of prompt, prompt_tokens and messages is expected", line.source());
  std::vector<std::int32_t> ids;
  if (line.has("prompt_tokens")) {
    ids = line.ids("prompt_tokens", model.vocabulary);
  } else {
    require(text.speaks(), Status::bad_content,
            "{}: text needs a tokenizer: give --tokenizer, or prompt_tokens",
            line.source());
    if (line.has("prompt")) {
      ids = text.encode(line.field("prompt").text(), text::SpecialTokens::add);
    } else {
      require(chat != nullptr, Status::bad_content,
              "{}: the model has no chat template for messages", line.source());
      try {
        ids = text.encode(chat->render(line.value("messages"), true).text,
                          text::SpecialTokens::leave_out);
      } catch (const Error& error) {
        fail(Status::bad_content, "{}: {}", line.source(), error.what());
      }
    }
  }
  require(!ids.empty(), Status::bad_content, "{}: the prompt is empty", line.source());
  require(model.any_length() || static_cast<std::int64_t>(ids.size()) < model.positions(),
          Status::bad_content,
          "{}: a prompt of {} tokens leaves no room in the model's {} positions: shorten "
          "it",
          line.source(), ids.size(), model.positions());
  return ids;
}

infer::Generation generation_of(const PromptLine& line,
                                const GenerationDefaults& defaults,
                                const model::ModelConfig& model, const ModelText& text,
                                const data::ChatTemplate* chat) {
  infer::Generation one;
  one.prompt = prompt_of(line, model, text, chat);
  one.max_new_tokens =
      line.integer("tokens", std::max<std::int64_t>(defaults.tokens, 1), 1, 1 << 24);
  infer::SamplerConfig& sampler = one.sampler;
  sampler = defaults.sampler;
  sampler.temperature = line.real("temperature", sampler.temperature, 0.0, 1e6);
  sampler.top_k = line.integer("top_k", sampler.top_k, 0, 1 << 30);
  sampler.top_p = line.real("top_p", sampler.top_p, 0.0, 1.0);
  sampler.min_p = line.real("min_p", sampler.min_p, 0.0, 1.0);
  sampler.typical_p = line.real("typical_p", sampler.typical_p, 1e-9, 1.0);
  sampler.repetition_penalty =
      line.real("repetition_penalty", sampler.repetition_penalty, 1e-6, 1e6);
  sampler.seed = static_cast<std::uint64_t>(
      line.integer("seed", static_cast<std::int64_t>(sampler.seed), 0, INT64_MAX));
  one.end_tokens = defaults.end_tokens;
  for (const std::int32_t id : line.ids("stop_tokens", model.vocabulary))
    one.end_tokens.push_back(id);
  one.log_probabilities = line.integer("logprobs", -1, 0, 100);
  const std::vector<std::string> stops = line.texts("stop");
  for (const std::string& stop : stops)
    require(!stop.empty(), Status::bad_content, "{}: 'stop' has an empty text",
            line.source());
  if (stops.empty()) return one;
  require(text.speaks(), Status::bad_content, "{}: 'stop' needs a tokenizer",
          line.source());
  one.is_stopped_by = stop_strings(text, one.prompt, stops);
  return one;
}

// Of what decides a text, but for the model and the options of all texts.
std::string digest_of(const infer::Generation& one, const PromptLine& line) {
  const infer::SamplerConfig& s = one.sampler;
  io::Json all = {
      one.prompt,     one.max_new_tokens,   s.temperature,        s.top_k, s.top_p,
      s.min_p,        s.typical_p,          s.repetition_penalty, s.seed,  s.sample,
      one.end_tokens, one.log_probabilities};
  for (const char* key : {"id", "stop"})
    all.push_back(line.has(key) ? line.value(key) : io::Json());
  return io::digest_of(
      all.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

}  // namespace

std::function<bool(std::span<const std::int32_t>)> stop_strings(
    const ModelText& text, std::span<const std::int32_t> prompt,
    std::vector<std::string> stops) {
  std::size_t longest = 0;
  for (const std::string& stop : stops) longest = std::max(longest, stop.size());
  // A token has at least a byte of text, or stands for none: so many tokens hold the stop
  // and some more, whose text makes sure that the last ones are decoded as in the whole.
  const std::size_t tokens = longest + 8;
  std::vector<std::int32_t> before(
      prompt.end() - static_cast<std::ptrdiff_t>(std::min(tokens, prompt.size())),
      prompt.end());
  return [&text, before = std::move(before), stops = std::move(stops),
          tokens](std::span<const std::int32_t> made) {
    std::vector<std::int32_t> tail = before;
    tail.insert(tail.end(), made.begin(), made.end());
    if (tail.size() > tokens + 1)
      tail.erase(tail.begin(), tail.end() - static_cast<std::ptrdiff_t>(tokens) - 1);
    const std::string whole = text.decode(tail);
    const std::string earlier =
        text.decode(std::span<const std::int32_t>(tail).first(tail.size() - 1));
    for (const std::string& stop : stops) {
      // Part of a character is another text until the token with its rest is there.
      const auto at = whole.rfind(stop);
      if (at == std::string::npos) continue;
      if (at > earlier.size() || earlier.compare(at, stop.size(), stop) != 0) return true;
    }
    return false;
  };
}

PromptFile read_prompts(const std::string& path, const GenerationDefaults& defaults,
                        std::int64_t samples, const model::ModelConfig& model,
                        const ModelText& text, const data::ChatTemplate* chat) {
  PromptFile all;
  io::JsonLines lines(path);
  std::size_t prompts = 0;
  while (const auto line = lines.next()) {
    const PromptLine read(line->object, line->source);
    infer::Generation one = generation_of(read, defaults, model, text, chat);
    const std::int64_t count = read.integer("samples", samples, 1, 10000);
    for (std::int64_t sample = 0; sample < count; ++sample) {
      one.sampler.sample = sample;
      all.wanted.push_back({prompts, sample,
                            read.has("id") ? read.value("id") : io::Json(),
                            digest_of(one, read)});
      all.generations.push_back(one);
    }
    ++prompts;
  }
  require(prompts > 0, Status::bad_content, "{}: has no prompts", path);
  return all;
}

}  // namespace trireme::app
