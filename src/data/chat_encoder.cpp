// Encodes conversations, and finds the tokens that the assistant wrote.
// SPDX-License-Identifier: Apache-2.0
#include "data/chat_encoder.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace trireme::data {
namespace {

using Json = ChatLine::Json;

// The first token that holds the byte; encoding.ids.size(): none.
std::size_t token_at(const text::Encoding& encoding, std::uint32_t byte) {
  // Offsets ascend, but tokens of one character share theirs.
  const auto found = std::find_if(
      encoding.offsets.begin(), encoding.offsets.end(),
      [&](const text::Range& range) { return range.begin <= byte && byte < range.end; });
  return static_cast<std::size_t>(found - encoding.offsets.begin());
}

// Whether a token begins before the byte and ends behind it.
bool is_within_token(const text::Encoding& encoding, std::uint32_t byte) {
  const auto crosses = [&](const text::Range& range) {
    return range.begin < byte && byte < range.end;
  };
  return std::any_of(encoding.offsets.begin(), encoding.offsets.end(), crosses);
}

Json first_messages(const Json& messages, std::size_t count) {
  Json first = Json::array();
  for (std::size_t i = 0; i < count; ++i) first.push_back(messages[i]);
  return first;
}

constexpr const char* other_ways =
    "mark what the assistant says by {% generation %} in a template of your own "
    "(data.chat_template), give the turn as prompt and completion, or write "
    "data.loss_on = \"all\"";

}  // namespace

EncodedChat ChatEncoder::encode(const ChatLine& line, const std::string& place) const {
  require(line.has_completion || loss_on_ != io::LossOn::completion, Status::bad_content,
          "{}: has no completion, but data.loss_on = \"completion\": write \"assistant\" "
          "or \"all\", or give prompt and completion",
          place);
  try {
    return line.is_conversation ? encode_conversation(line, place)
                                : encode_texts(line, place);
  } catch (const Error& error) {
    if (error.status() != Status::bad_content ||
        std::string(error.what()).starts_with(place))
      throw;
    throw Error(error.status(), place + ": " + error.what(), error.where());
  }
}

EncodedChat ChatEncoder::encode_texts(const ChatLine& line,
                                      const std::string& place) const {
  require(loss_on_ != io::LossOn::assistant, Status::bad_content,
          "{}: is a text without turns, but data.loss_on = \"assistant\": write "
          "\"auto\", or give messages",
          place);
  EncodedChat out;
  out.ids = tokenizer_.encode(line.prompt + line.completion, text::SpecialTokens::add);
  std::size_t prompt = 0;
  if (line.has_completion && loss_on_ != io::LossOn::all) {
    const std::vector<std::int32_t> ids =
        tokenizer_.encode(line.prompt, text::SpecialTokens::add);
    prompt = ids.size();
    const bool begins =
        prompt <= out.ids.size() && std::equal(ids.begin(), ids.end(), out.ids.begin());
    require(
        begins, Status::bad_content,
        "{}: the prompt's tokens do not begin those of prompt and completion, so that "
        "the completion's cannot be told: let the completion begin with the blank or "
        "line "
        "end that stands between them, and the prompt end without one",
        place);
  }
  if (out.ids.empty() || out.ids.back() != end_) out.ids.push_back(end_);
  out.learned.assign(out.ids.size(), 1);
  std::fill_n(out.learned.begin(), prompt, std::uint8_t{0});
  return out;
}

EncodedChat ChatEncoder::encode_conversation(const ChatLine& line,
                                             const std::string& place) const {
  require(chat_ != nullptr, Status::bad_content,
          "{}: is a conversation, but the tokenizer's folder has no chat template: set "
          "data.chat_template to a file with one",
          place);
  const RenderedChat chat = chat_->render(line.messages, false, line.variables);
  text::Encoding encoding =
      tokenizer_.encode_with_offsets(chat.text, text::SpecialTokens::leave_out);
  EncodedChat out;
  if (loss_on_ != io::LossOn::assistant)
    out.learned.assign(encoding.ids.size(), 1);
  else if (chat_->marks_generated())
    out.learned = generated_tokens(chat, encoding);
  else
    out.learned = assistant_tokens(line, chat.text, encoding);
  if (line.has_completion && loss_on_ != io::LossOn::all)
    std::fill_n(out.learned.begin(), prompt_tokens(line, chat.text, encoding),
                std::uint8_t{0});
  out.ids = std::move(encoding.ids);
  return out;
}

// From the token that holds the first byte to the first one that holds the last
// character: as transformers does it.
std::vector<std::uint8_t> ChatEncoder::generated_tokens(
    const RenderedChat& chat, const text::Encoding& encoding) const {
  std::vector<std::uint8_t> learned(encoding.ids.size());
  for (const text::Range& range : chat.generated) {
    const std::size_t begin = token_at(encoding, range.begin);
    if (begin == learned.size()) break;
    const std::size_t last = range.end > 0 ? token_at(encoding, range.end - 1) : 0;
    const std::size_t end = last > 0 && last < learned.size() ? last + 1 : learned.size();
    for (std::size_t i = begin; i < end; ++i) learned[i] = 1;
  }
  return learned;
}

// A turn's text is what it adds to that of the turns before it, with the beginning of an
// answer behind them. Both must begin the text of the whole.
std::vector<std::uint8_t> ChatEncoder::assistant_tokens(
    const ChatLine& line, const std::string& text, const text::Encoding& encoding) const {
  std::vector<std::uint8_t> learned(encoding.ids.size());
  for (std::size_t i = 0; i < line.messages.size(); ++i) {
    if (line.messages[i]["role"] != "assistant") continue;
    const std::string before =
        chat_->render(first_messages(line.messages, i), true, line.variables).text;
    const std::string with =
        chat_->render(first_messages(line.messages, i + 1), false, line.variables).text;
    require(text.starts_with(with) && with.starts_with(before), Status::bad_content,
            "the template {} writes the turns up to number {} otherwise when they are "
            "alone, so that the assistant's text cannot be told: {}",
            chat_->name(), i + 1, other_ways);
    const auto begin = static_cast<std::uint32_t>(before.size());
    const auto end = static_cast<std::uint32_t>(with.size());
    require(
        !is_within_token(encoding, begin) && !is_within_token(encoding, end),
        Status::bad_content,
        "turn {} begins or ends within a token, so that the assistant's tokens cannot "
        "be told: {}",
        i + 1, other_ways);
    for (std::size_t t = 0; t < learned.size(); ++t)
      if (encoding.offsets[t].begin >= begin && encoding.offsets[t].end <= end)
        learned[t] = 1;
  }
  return learned;
}

std::size_t ChatEncoder::prompt_tokens(const ChatLine& line, const std::string& text,
                                       const text::Encoding& encoding) const {
  const std::string prompt =
      chat_
          ->render(first_messages(line.messages, line.prompt_messages), true,
                   line.variables)
          .text;
  const std::vector<std::int32_t> ids =
      tokenizer_.encode(prompt, text::SpecialTokens::leave_out);
  const bool begins = text.starts_with(prompt) && ids.size() <= encoding.ids.size() &&
                      std::equal(ids.begin(), ids.end(), encoding.ids.begin());
  require(
      begins, Status::bad_content,
      "the template {} does not write the prompt alone as it begins the whole, so that "
      "the completion's tokens cannot be told: use a template (data.chat_template) "
      "that does, or write data.loss_on = \"all\"",
      chat_->name());
  return ids.size();
}

}  // namespace trireme::data
