// The "blend" source: the samples of several sources, and in what turn they come.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "base/number.hpp"
#include "io/source_stream.hpp"

namespace trireme::io {
namespace {

// Samples are numbered through: those of the first source, then those of the next.
class BlendSource final : public SampleSource {
 public:
  BlendSource(std::vector<std::unique_ptr<SampleSource>> sources,
              std::vector<double> weights)
      : sources_(std::move(sources)) {
    blend_.weights = std::move(weights);
    for (const auto& source : sources_) {
      blend_.begins.push_back(samples_);
      blend_.samples.push_back(source->samples());
      samples_ += source->samples();
    }
  }

  std::int64_t samples() const override { return samples_; }
  std::int64_t tokens() const override {
    std::int64_t sum = 0;
    for (const auto& source : sources_) sum += source->tokens();
    return sum;
  }
  void sample(std::int64_t index, std::span<std::int32_t> tokens) const override {
    const std::size_t at = source_of(index);
    sources_[at]->sample(index - blend_.begins[at], tokens);
  }
  SampleMarks marks(std::int64_t index) const override {
    const std::size_t at = source_of(index);
    return sources_[at]->marks(index - blend_.begins[at]);
  }
  bool has_masks() const override {
    return std::any_of(sources_.begin(), sources_.end(),
                       [](const auto& source) { return source->has_masks(); });
  }
  std::vector<SamplePart> parts(std::int64_t index) const override {
    const std::size_t at = source_of(index);
    return sources_[at]->parts(index - blend_.begins[at]);
  }
  // Where all parts say the same.
  std::optional<std::int32_t> end_token() const override {
    const auto first = sources_.front()->end_token();
    const bool same = std::all_of(sources_.begin(), sources_.end(),
                                  [&](const auto& s) { return s->end_token() == first; });
    return same ? first : std::nullopt;
  }
  const Blend* blend() const override { return &blend_; }
  std::int64_t kept_bytes() const override {
    std::int64_t sum = 0;
    for (const auto& source : sources_) sum += source->kept_bytes();
    return sum;
  }
  std::string describe() const override {
    std::string text = format("blend of {} sources", sources_.size());
    for (std::size_t i = 0; i < sources_.size(); ++i)
      text +=
          format("; {} % {}", fixed(100 * blend_.weights[i], 2), sources_[i]->describe());
    return text;
  }

 private:
  std::size_t source_of(std::int64_t index) const {
    require(index >= 0 && index < samples_, "sample {} of {}", index, samples_);
    return static_cast<std::size_t>(
        std::upper_bound(blend_.begins.begin(), blend_.begins.end(), index) -
        blend_.begins.begin() - 1);
  }

  std::vector<std::unique_ptr<SampleSource>> sources_;
  Blend blend_;
  std::int64_t samples_ = 0;
};

}  // namespace

namespace {

// The next word of `text`, which is left with what follows it.
std::string_view take_word(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  const std::string_view word = text.substr(0, text.find(' '));
  text.remove_prefix(word.size());
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  return word;
}

// As numpy adds up to 128 numbers, so that weights are those of Megatron-LM to the bit.
double sum_of(const std::vector<BlendPart>& parts) {
  double sum = 0;
  if (parts.size() < 8) {
    for (const BlendPart& part : parts) sum += part.weight;
    return sum;
  }
  double lanes[8] = {};
  const std::size_t whole = parts.size() / 8 * 8;
  for (std::size_t i = 0; i < whole; ++i) lanes[i % 8] += parts[i].weight;
  sum = ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) +
        ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
  for (std::size_t i = whole; i < parts.size(); ++i) sum += parts[i].weight;
  return sum;
}

}  // namespace

BlendPart parse_blend_part(std::string_view text) {
  const std::string whole(text);
  const auto refuse = [&](const char* why) {
    fail(Status::bad_content,
         "\"{}\" {}: write a weight, a kind of source and a path, as \"0.7 tokens "
         "web/*.h5\"",
         whole, why);
  };
  BlendPart part;
  const auto weight = parse_number<double>(take_word(text));
  if (!weight || !(*weight >= 1e-100 && *weight <= 1e100))
    refuse("does not begin with a weight above 0 (1e-100 to 1e100)");
  part.weight = *weight;
  const std::string_view kind = take_word(text);
  const auto known = {SourceKind::bytes, SourceKind::tokens, SourceKind::megatron,
                      SourceKind::llmc,  SourceKind::text,   SourceKind::chat};
  const auto found = std::find_if(known.begin(), known.end(),
                                  [&](SourceKind k) { return name_of(k) == kind; });
  if (found == known.end())
    refuse("does not name bytes, tokens, megatron, llmc, text or chat behind the weight");
  part.kind = *found;
  part.path = text;
  if (part.path.empty()) refuse("names no path");
  return part;
}

std::unique_ptr<SampleSource> open_blend(const SourceConfig& config,
                                         const OpenSource& open) {
  require(!config.blend.empty(), Status::missing_input,
          "data.source = \"blend\" needs data.blend");
  std::vector<std::unique_ptr<SampleSource>> sources;
  std::vector<double> weights;
  const double sum = sum_of(config.blend);
  for (const BlendPart& part : config.blend) {
    SourceConfig one = config;
    one.kind = part.kind;
    one.paths = {part.path};
    one.blend.clear();
    sources.push_back(open(one));
    weights.push_back(part.weight / sum);
  }
  return std::make_unique<BlendSource>(std::move(sources), std::move(weights));
}

}  // namespace trireme::io
