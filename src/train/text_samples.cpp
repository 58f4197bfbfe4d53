// Text written during training, by forwards of the rows of a microbatch.
// SPDX-License-Identifier: Apache-2.0
// Shapes: B rows of a microbatch, P positions of a row on this rank, T = B * P, V entries
// of the vocabulary on this rank, C rows of a chunk.
#include "train/text_samples.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/philox.hpp"
#include "base/text.hpp"

namespace trireme::train {
namespace {

constexpr double nothing = -std::numeric_limits<double>::infinity();

}  // namespace

TextSamples::TextSamples(const config::RunConfig& config) : config_(config) {
  const config::MetricsSettings& metrics = config.metrics;
  if (metrics.sample_every == 0) return;
  if (config.data.kind != io::SourceKind::bytes) {
    tokenizer_.emplace(config.data.tokenizer);
    end_ = tokenizer_->end_token();
  } else {
    end_ = io::end_of_text;
  }
  for (const std::string& prompt : metrics.sample_prompts) {
    Line& line = lines_.emplace_back();
    if (tokenizer_)
      line.tokens = tokenizer_->encode(prompt, text::SpecialTokens::add);
    else
      for (const char c : prompt) line.tokens.push_back(static_cast<unsigned char>(c));
    line.prompt_tokens = line.tokens.size();
    const auto tokens = std::ssize(line.tokens);
    require(tokens >= 1 && tokens < config.model.sequence, Status::bad_content,
            "metrics.sample_prompts: \"{}\" has {} tokens; write one of 1 to {}, less "
            "than model.sequence",
            one_line(prompt), tokens, config.model.sequence - 1);
    for (const std::int32_t token : line.tokens)
      require(
          token < config.model.vocabulary, Status::bad_content,
          "metrics.sample_prompts: \"{}\" has token {}, outside model.vocabulary = {}",
          one_line(prompt), token, config.model.vocabulary);
  }
  const std::int64_t P = config.model.sequence / config.parallel.mesh.context;
  batch_ = Buffer(Device::host(), DType::i32, {2 * config.batch.micro * P},
                  MemoryClass::data, "rows of prompts");
}

bool TextSamples::due(std::int64_t step) const {
  const std::int64_t every = config_.metrics.sample_every;
  return every > 0 && (step == config_.run.steps || step % every == 0);
}

TextSamples::Best TextSamples::choose(std::span<const double> logits,
                                      std::int64_t first_token, double temperature,
                                      std::uint64_t seed, std::int64_t step,
                                      std::int64_t prompt, std::int64_t position) {
  static const std::uint64_t stream = hash_name("text samples");
  // Every token of every place has a number of its own.
  const Random of_step(seed, stream + static_cast<std::uint64_t>(step));
  const Random of_place(of_step.bits(static_cast<std::uint64_t>(prompt)), stream,
                        static_cast<std::uint32_t>(position));
  Best best{nothing, first_token};
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const std::int64_t token = first_token + static_cast<std::int64_t>(i);
    double value = logits[i];
    if (temperature > 0) {
      constexpr double smallest = 0x1p-60;  // a number of 53 bits may be 0
      const double u = of_place.uniform(static_cast<std::uint64_t>(token)) + smallest;
      value = value / temperature - std::log(-std::log(std::min(u, 1 - 0x1p-53)));
    }
    if (value > best.value) best = {value, token};
  }
  return best;
}

// The rows of the lines from `first` on; what follows a text is not seen by it. Returns
// the place of each text's last token, if this rank has it, with its line.
std::map<std::int64_t, std::size_t> TextSamples::fill_rows(
    const std::vector<std::int64_t>& positions, std::size_t first, std::size_t count) {
  const auto P = static_cast<std::int64_t>(positions.size());
  const std::int64_t T = config_.batch.micro * P;
  const auto inputs = batch_.view().rows(0, T).span<std::int32_t>();
  std::ranges::fill(inputs, 0);
  std::ranges::fill(batch_.view().rows(T, T).span<std::int32_t>(), io::ignore_index);
  std::map<std::int64_t, std::size_t> ends;
  for (std::size_t row = 0; row < count; ++row) {
    const Line& line = lines_[first + row];
    for (std::int64_t i = 0; i < P; ++i) {
      const std::int64_t at = static_cast<std::int64_t>(row) * P + i;
      const auto position =
          static_cast<std::size_t>(positions[static_cast<std::size_t>(i)]);
      if (position >= line.tokens.size()) continue;
      inputs[static_cast<std::size_t>(at)] = line.tokens[position];
      if (position + 1 == line.tokens.size() && !line.ended) ends[at] = first + row;
    }
  }
  return ends;
}

// One token more for the lines from `first` on that a microbatch has rows for.
void TextSamples::grow(comm::World& world, engine::Engine& engine, std::int64_t step,
                       std::size_t first) {
  const std::size_t count =
      std::min(lines_.size() - first, static_cast<std::size_t>(config_.batch.micro));
  const auto ends = fill_rows(engine.positions(), first, count);
  // 1. the best token of this rank's part of the vocabulary, behind each text
  std::map<std::size_t, Best> best;
  const auto each = [&](std::int64_t begin, const TensorView& logits_CV) {
    const std::int64_t past = begin + logits_CV.dim(0), V = logits_CV.dim(1);
    for (auto at = ends.lower_bound(begin); at != ends.end() && at->first < past; ++at) {
      const TensorView row = host_.read(logits_CV.rows(at->first - begin, 1));
      std::vector<double> logits(static_cast<std::size_t>(V));
      for (std::int64_t v = 0; v < V; ++v)
        logits[static_cast<std::size_t>(v)] =
            row.dtype() == DType::f64 ? row.data<double>()[v]
                                      : static_cast<double>(row.data<float>()[v]);
      best[at->second] =
          choose(logits, engine.vocabulary_begin(), config_.metrics.sample_temperature,
                 config_.run.seed, step, static_cast<std::int64_t>(at->second),
                 std::ssize(lines_[at->second].tokens));
    }
  };
  const std::int64_t T = batch_.view().elements() / 2;
  engine.evaluate(batch_.view().rows(0, T), batch_.view().rows(T, T), each);
  // 2. of all ranks' the best, the lowest among equals
  for (std::size_t row = first; row < first + count; ++row) {
    Line& line = lines_[row];
    if (line.ended) continue;
    const Best mine = best.contains(row) ? best[row] : Best{nothing, 0};
    const double value = world.max(mine.value);
    const double token =
        -world.max(mine.value == value ? -static_cast<double>(mine.token) : nothing);
    line.ended = !std::isfinite(value) || !std::isfinite(token) ||
                 static_cast<std::int32_t>(token) == end_;
    if (!line.ended) line.tokens.push_back(static_cast<std::int32_t>(token));
  }
}

std::vector<TextSamples::Sample> TextSamples::write(comm::World& world,
                                                    engine::Engine& engine,
                                                    std::int64_t step,
                                                    const std::function<void()>& beat,
                                                    const std::function<bool()>& stops) {
  const auto B = static_cast<std::size_t>(config_.batch.micro);
  for (Line& line : lines_) {
    line.tokens.resize(line.prompt_tokens);
    line.ended = false;
  }
  for (std::size_t first = 0; first < lines_.size(); first += B) {
    for (std::int64_t i = 0; i < config_.metrics.sample_tokens; ++i) {
      bool all_ended = true;
      for (std::size_t row = first; row < std::min(first + B, lines_.size()); ++row) {
        Line& line = lines_[row];
        line.ended = line.ended || std::ssize(line.tokens) == config_.model.sequence;
        all_ended = all_ended && line.ended;
      }
      if (all_ended) break;
      beat();
      if (stops()) return {};
      grow(world, engine, step, first);
    }
  }
  std::vector<Sample> samples;
  for (std::size_t i = 0; i < lines_.size(); ++i)
    samples.push_back(
        {config_.metrics.sample_prompts[i],
         decode(std::span(lines_[i].tokens).subspan(lines_[i].prompt_tokens))});
  return samples;
}

std::string TextSamples::decode(std::span<const std::int32_t> ids) const {
  std::string text;
  if (!tokenizer_) {
    for (const std::int32_t id : ids)
      if (id < io::end_of_text) text += static_cast<char>(id);
    return valid_utf8(text);
  }
  // A model's vocabulary may have places that its tokenizer has no token for.
  text::StreamDecoder decoder(*tokenizer_, true);
  for (const std::int32_t id : ids)
    if (tokenizer_->token_of(id) != nullptr) text += decoder.put(id);
  return valid_utf8(text + decoder.finish());
}

}  // namespace trireme::train
