// Lines of files of conversations: which form each has, and what it holds.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "io/json.hpp"

namespace trireme::data {

// A line of one of these forms, told by its members, the first of this list:
//   messages                            a conversation
//   conversations                       ShareGPT's: from and value, and system beside it
//   prompt, completion                  two texts, or two lists of messages
//   instruction, input (or none), output    Alpaca's: as a prompt and a completion of
//                                       messages
//   text                                a text as it stands
// tools, documents and the members of chat_template_kwargs are for the template.
struct ChatLine {
  using Json = nlohmann::ordered_json;

  bool is_conversation = false;
  // Of a conversation: its messages, of which the first `prompt_messages` are a prompt.
  Json messages = Json::array();
  std::size_t prompt_messages = 0;
  Json variables = Json::object();
  // Of texts.
  std::string prompt, completion;
  bool has_completion = false;  // of either
};

// Throws Error(bad_content) that begins with `place`, such as "chat.jsonl:12".
ChatLine parse_chat_line(std::string_view line, const std::string& place);

// A pair of answers, the preferred one first, each as prompt and completion:
//   prompt, chosen, rejected    three texts, or three lists of messages
//   chosen, rejected            two lists of messages; what they begin with alike is the
//                               prompt. A text `prompt` beside them must be the content
//                               of its last message.
// tools, documents and chat_template_kwargs as above. Throws as parse_chat_line().
std::array<ChatLine, 2> parse_preference_line(std::string_view line,
                                              const std::string& place);

}  // namespace trireme::data
