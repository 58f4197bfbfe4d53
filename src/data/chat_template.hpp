// ChatTemplate: turns the messages of a conversation into the text that a model sees.
// SPDX-License-Identifier: Apache-2.0
// The templates are those that model folders carry: Jinja, as transformers runs it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/jinja/budget.hpp"
#include "io/json.hpp"
#include "text/aligned_text.hpp"

namespace trireme::data {

struct RenderedChat {
  std::string text;
  // What {% generation %} blocks wrote: what the assistant said, and how it ends.
  std::vector<text::Range> generated;
};

struct ChatTemplateConfig {
  std::string name = "chat template";               // for messages
  std::map<std::string, std::string> special = {};  // bos_token, eos_token ...
  // What strftime_now() takes for now, as "2026-01-31"; empty: it is refused, for a text
  // that depends on the clock is another one at a resume.
  std::string date = {};
  // The folder has another template for conversations with tools.
  bool tools_have_another = false;
  jinja::Limits limits = {};
};

// Constant after it was made: threads may share it.
class ChatTemplate {
 public:
  using Json = nlohmann::ordered_json;

  // Compiles the template. Throws Error(bad_content) naming the template and the line.
  ChatTemplate(std::string_view source, ChatTemplateConfig config);
  ~ChatTemplate();
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;

  // Whether it has {% generation %} blocks.
  bool marks_generated() const;
  // `messages`: a list of objects; members that are null are left out, and reasoning is
  // given under each of its names, as transformers does it. `prompt`: the assistant is
  // to speak next. `variables`: an object, more names for the template, such as tools.
  // Throws Error(bad_content) naming the template and the line, for what the template
  // refuses and for what takes too many steps or too much text.
  RenderedChat render(const Json& messages, bool prompt,
                      const Json& variables = Json::object()) const;
  const std::string& name() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The template of the folder of a tokenizer: chat_template.jinja, else chat_template in
// tokenizer_config.json, of several the one that is named default; where there is one
// named tool_use, too, conversations with tools are refused. `file`: this one
// instead, if it is not empty. Nothing where the folder has none. Throws
// Error(bad_content), Error(missing_input).
std::optional<ChatTemplate> open_chat_template(const std::string& folder,
                                               const std::string& file,
                                               const std::string& date);

}  // namespace trireme::data
