// ChatEncoder: a conversation as tokens, and which of them are learned.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/chat_lines.hpp"
#include "data/chat_template.hpp"
#include "io/sample_source.hpp"
#include "text/tokenizer.hpp"

namespace trireme::data {

struct EncodedChat {
  std::vector<std::int32_t> ids;
  std::vector<std::uint8_t> learned;  // of each id: whether it is a target
};

// The rules are those of TRL's SFTTrainer: a conversation is rendered and encoded without
// special tokens of the tokenizer's own; texts get them, and the end token behind them.
// Constant: threads may share it.
class ChatEncoder {
 public:
  // `chat` may lack where all lines are texts. Both outlive the encoder.
  ChatEncoder(const text::Tokenizer& tokenizer, const ChatTemplate* chat,
              io::LossOn loss_on, std::int32_t end_token)
      : tokenizer_(tokenizer), chat_(chat), loss_on_(loss_on), end_(end_token) {}

  // Throws Error(bad_content) that begins with `place` and says the fix: for what the
  // template refuses, and where it cannot be said which tokens are to be learned.
  EncodedChat encode(const ChatLine& line, const std::string& place) const;

 private:
  EncodedChat encode_texts(const ChatLine& line, const std::string& place) const;
  EncodedChat encode_conversation(const ChatLine& line, const std::string& place) const;
  std::vector<std::uint8_t> generated_tokens(const RenderedChat& chat,
                                             const text::Encoding& encoding) const;
  std::vector<std::uint8_t> assistant_tokens(const ChatLine& line,
                                             const std::string& text,
                                             const text::Encoding& encoding) const;
  // How many tokens the prompt has.
  std::size_t prompt_tokens(const ChatLine& line, const std::string& text,
                            const text::Encoding& encoding) const;

  const text::Tokenizer& tokenizer_;
  const ChatTemplate* chat_;
  io::LossOn loss_on_;
  std::int32_t end_;
};

}  // namespace trireme::data
