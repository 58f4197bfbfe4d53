// Reads the forms in which conversations are passed around as JSON lines.
// SPDX-License-Identifier: Apache-2.0
#include "data/chat_lines.hpp"

#include <array>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"
#include "io/json_depth.hpp"
#include "io/json_members.hpp"
#include "text/config_node.hpp"

namespace trireme::data {
namespace {

using Line = ChatLine::Json;

class LineReader {
 public:
  LineReader(const Line& line, const std::string& place) : line_(line), place_(place) {}

  ChatLine read() {
    if (!line_.is_object()) refuse("a JSON object is expected");
    read_variables();
    if (has("messages"))
      take_messages(line_["messages"], "messages");
    else if (has("conversations"))
      take_share_gpt();
    else if (has("prompt") && has("completion"))
      take_completion();
    else if (has("instruction") && has("output"))
      take_alpaca();
    else if (has("text"))
      out_.prompt = text("text");
    else
      refuse(
          "has none of messages, conversations, prompt and completion, instruction and "
          "output, or text");
    if (out_.is_conversation && out_.messages.empty()) refuse("holds no message");
    return std::move(out_);
  }

  std::array<ChatLine, 2> read_pair() {
    if (!line_.is_object()) refuse("a JSON object is expected");
    read_variables();
    for (const char* key : {"chosen", "rejected"})
      if (!has(key)) refuse("has no \"" + std::string(key) + "\" beside its prompt");
    const Line &chosen = line_["chosen"], &rejected = line_["rejected"];
    const bool texts = chosen.is_string() && rejected.is_string();
    if (!texts && !(chosen.is_array() && rejected.is_array()))
      refuse("\"chosen\" and \"rejected\" must be two texts or two lists of messages");
    if (texts) return {text_answer("chosen"), text_answer("rejected")};
    if (has("prompt") && line_["prompt"].is_array())
      return {answer(line_["prompt"], chosen, 0, "chosen"),
              answer(line_["prompt"], rejected, 0, "rejected")};
    const std::size_t shared = shared_messages(chosen, rejected);
    return {answer(Line::array(), chosen, shared, "chosen"),
            answer(Line::array(), rejected, shared, "rejected")};
  }

 private:
  ChatLine text_answer(const char* key) {
    if (!has("prompt")) refuse("has no \"prompt\"; an empty text is one");
    out_.prompt = text("prompt");
    out_.completion = text(key);
    out_.has_completion = true;
    return out_;
  }

  // The messages of `prompt`, or the first `shared` of `messages` are the prompt.
  ChatLine answer(const Line& prompt, const Line& messages, std::size_t shared,
                  const char* name) {
    out_.messages = Line::array();
    out_.has_completion = true;
    take_messages(prompt, "prompt");
    out_.prompt_messages = out_.messages.size() + shared;
    take_messages(messages, name);
    if (out_.prompt_messages == 0) refuse("has no message as a prompt");
    if (out_.messages.size() == out_.prompt_messages)
      refuse("\"" + std::string(name) + "\" holds no message behind the prompt");
    return out_;
  }

  std::size_t shared_messages(const Line& chosen, const Line& rejected) const {
    std::size_t shared = 0;
    while (shared < chosen.size() && shared < rejected.size() &&
           chosen[shared] == rejected[shared])
      ++shared;
    if (!has("prompt")) return shared;
    const bool known = shared > 0 && chosen[shared - 1].is_object() &&
                       chosen[shared - 1].value("content", Line()) == line_["prompt"];
    if (!known)
      refuse(
          "\"prompt\" is neither a list of messages nor the last message that "
          "\"chosen\" and \"rejected\" share");
    return shared;
  }

  [[noreturn]] void refuse(const std::string& what) const {
    fail(Status::bad_content, "{}: {}", place_, one_line(what));
  }

  bool has(const char* key) const { return line_.contains(key) && !line_[key].is_null(); }

  std::string text(const char* key) const {
    if (!line_[key].is_string()) refuse(std::string("\"") + key + "\" must be a text");
    return line_[key].get<std::string>();
  }

  void read_variables() {
    for (const char* key : {"tools", "documents"})
      if (has(key)) out_.variables[key] = line_[key];
    if (!has("chat_template_kwargs")) return;
    const Line& more = line_["chat_template_kwargs"];
    if (!more.is_object()) refuse("\"chat_template_kwargs\" must be an object");
    for (auto entry = more.begin(); entry != more.end(); ++entry)
      out_.variables[entry.key()] = entry.value();
  }

  // Adds them to the conversation.
  void take_messages(const Line& messages, const std::string& name) {
    out_.is_conversation = true;
    if (!messages.is_array()) refuse("\"" + name + "\" must be a list of messages");
    for (std::size_t i = 0; i < messages.size(); ++i) {
      const Line& message = messages[i];
      if (!message.is_object() || !message.contains("role") ||
          !message["role"].is_string())
        refuse(format("{}[{}] must be an object with a \"role\"", name, i));
      out_.messages.push_back(message);
    }
  }

  void add(const char* role, std::string content) {
    out_.is_conversation = true;
    Line message = Line::object();
    message["role"] = role;
    message["content"] = std::move(content);
    out_.messages.push_back(std::move(message));
  }

  void take_share_gpt() {
    static constexpr std::array<std::pair<const char*, const char*>, 14> roles = {
        {{"human", "user"},
         {"user", "user"},
         {"gpt", "assistant"},
         {"chatgpt", "assistant"},
         {"assistant", "assistant"},
         {"model", "assistant"},
         {"bot", "assistant"},
         {"bing", "assistant"},
         {"bard", "assistant"},
         {"system", "system"},
         {"tool", "tool"},
         {"function", "tool"},
         {"function_response", "tool"},
         {"observation", "tool"}}};
    const Line& turns = line_["conversations"];
    if (!turns.is_array()) refuse("\"conversations\" must be a list");
    if (has("system") && !text("system").empty()) add("system", text("system"));
    for (std::size_t i = 0; i < turns.size(); ++i) {
      const Line& turn = turns[i];
      const bool whole = turn.is_object() && turn.contains("from") &&
                         turn.contains("value") && turn["from"].is_string() &&
                         turn["value"].is_string();
      if (!whole)
        refuse(
            format("conversations[{}] must be an object with \"from\" and \"value\"", i));
      const std::string from = turn["from"].get<std::string>();
      const char* role = nullptr;
      for (const auto& known : roles)
        if (from == known.first) role = known.second;
      if (role == nullptr)
        refuse(
            format("conversations[{}] is from \"{}\", which is none of human, gpt, "
                   "system, tool and their other names",
                   i, from));
      add(role, turn["value"].get<std::string>());
    }
    out_.is_conversation = true;
  }

  void take_completion() {
    out_.has_completion = true;
    const Line &prompt = line_["prompt"], &completion = line_["completion"];
    if (prompt.is_string() && completion.is_string()) {
      out_.prompt = prompt.get<std::string>();
      out_.completion = completion.get<std::string>();
      return;
    }
    if (!prompt.is_array() || !completion.is_array())
      refuse("\"prompt\" and \"completion\" must be two texts or two lists of messages");
    take_messages(prompt, "prompt");
    out_.prompt_messages = out_.messages.size();
    take_messages(completion, "completion");
    if (out_.prompt_messages == 0 || out_.messages.size() == out_.prompt_messages)
      refuse("\"prompt\" and \"completion\" must hold a message each");
  }

  void take_alpaca() {
    std::string question = text("instruction");
    if (has("input") && !text("input").empty()) question += "\n\n" + text("input");
    if (has("system") && !text("system").empty()) add("system", text("system"));
    add("user", std::move(question));
    out_.prompt_messages = out_.messages.size();
    add("assistant", text("output"));
    out_.has_completion = true;
  }

  const Line& line_;
  const std::string& place_;
  ChatLine out_;
};

}  // namespace

namespace {

// Discarded where it is no JSON.
Line parse_once_named(std::string_view line, const std::string& place) {
  try {
    return io::parse_json_unique_keys(line);
  } catch (const io::JsonMistake& mistake) {
    fail(Status::bad_content, "{}: {} in an object: leave one of them out", place,
         one_line(mistake.what()));
  }
}

Line parse(std::string_view line, const std::string& place) {
  Line json(Line::value_t::discarded);
  if (!io::nests_deeper(line, text::deepest_json)) json = parse_once_named(line, place);
  if (json.is_discarded()) text::parse_json(line, place);  // says what is wrong
  return json;
}

}  // namespace

ChatLine parse_chat_line(std::string_view line, const std::string& place) {
  const Line json = parse(line, place);
  return LineReader(json, place).read();
}

std::array<ChatLine, 2> parse_preference_line(std::string_view line,
                                              const std::string& place) {
  const Line json = parse(line, place);
  return LineReader(json, place).read_pair();
}

}  // namespace trireme::data
