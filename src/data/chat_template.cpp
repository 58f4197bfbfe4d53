// Chat templates: found in folders, compiled, and given what transformers gives them.
// SPDX-License-Identifier: Apache-2.0
#include "data/chat_template.hpp"

#include <array>
#include <ctime>

#include "base/directory.hpp"
#include "base/error.hpp"
#include "base/number.hpp"
#include "data/jinja/filters.hpp"
#include "data/jinja/interpreter.hpp"
#include "io/files.hpp"
#include "text/config_node.hpp"
#include "text/utf8.hpp"

namespace trireme::data {

using jinja::Arguments;
using jinja::Budget;
using jinja::Value;
using OrderedJson = ChatTemplate::Json;

struct ChatTemplate::State {
  ChatTemplateConfig config;
  jinja::Block block;
  bool generates = false;
};

namespace {

constexpr std::int64_t most_file_bytes = 16 << 20;

bool has_generation(const jinja::Block& block) {
  for (const jinja::Statement& statement : block) {
    if (statement.kind == jinja::Do::generation) return true;
    for (const jinja::Block& inner : statement.blocks)
      if (has_generation(inner)) return true;
  }
  return false;
}

// Work with a template; its errors name the template, and the line at `line`, if any.
template <class Work>
auto naming(const std::string& name, const Work& work) {
  try {
    return work();
  } catch (const Error& error) {
    throw Error(error.status(), name + ":" + error.what(), error.where());
  }
}

Value raise_exception(Budget&, const Arguments& arguments) {
  jinja::refuse("it refuses the conversation: " +
                jinja::text_of(arguments.bind({"message"})[0], "the message"));
}

Value make_dict(Budget&, const Arguments& arguments) {
  if (!arguments.positional.empty()) jinja::refuse("dict() takes named values only");
  return Value::dict(arguments.named);
}

Value make_range(Budget& budget, const Arguments& arguments) {
  const auto bound = arguments.bind({"start", "stop", "step"});
  const auto number = [&](std::size_t i, std::int64_t otherwise) {
    return bound[i].is(jinja::Kind::undefined) ? otherwise
                                               : jinja::whole_of(bound[i], "a range");
  };
  const bool one = bound[1].is(jinja::Kind::undefined);
  const std::int64_t begin = one ? 0 : number(0, 0), end = number(one ? 0 : 1, 0);
  const std::int64_t step = number(2, 1);
  if (step == 0) jinja::refuse("the step of a range is 0");
  constexpr double most = 100'000;  // Jinja's
  if ((static_cast<double>(end) - static_cast<double>(begin)) /
          static_cast<double>(step) >
      most)
    jinja::refuse("a range has more than 100000 numbers");
  jinja::List numbers;
  for (std::int64_t i = begin; step > 0 ? i < end : i > end;) {
    budget.elements(1);
    numbers.push_back(Value::of(i));
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return Value::view(std::move(numbers));
}

// "2026-01-31" as the beginning of that day.
std::tm parse_date(const std::string& date) {
  std::tm day{};
  const bool form = date.size() == 10 && date[4] == '-' && date[7] == '-';
  const auto number = [&](std::size_t at, std::size_t size) {
    return form ? parse_number<int>(date.substr(at, size)) : std::nullopt;
  };
  const auto year = number(0, 4), month = number(5, 2), in_month = number(8, 2);
  bool valid = year && month && in_month && *year >= 1;
  if (valid) {
    day.tm_year = *year - 1900;
    day.tm_mon = *month - 1;
    day.tm_mday = *in_month;
    ::timegm(&day);  // moves days that no month has
    valid = day.tm_mon == *month - 1 && day.tm_mday == *in_month;
  }
  require(valid, Status::bad_content,
          "\"{}\" is no date: write year, month and day as \"2026-01-31\"", date);
  return day;
}

Value time_text(const std::string& date, const Arguments& arguments) {
  const std::string form =
      jinja::text_of(arguments.bind({"format"})[0], "the form of a date");
  if (date.empty())
    jinja::refuse(
        "it asks for the date, with which texts would change from day to day: set "
        "data.template_date = \"2026-01-31\"");
  if (form.empty()) return Value::of(form);
  const std::tm day = parse_date(date);
  std::array<char, 1024> out{};
  const std::size_t size = std::strftime(out.data(), out.size(), form.c_str(), &day);
  if (size == 0) jinja::refuse("the form of a date makes more than 1000 bytes");
  return Value::of(text::replace_invalid({out.data(), size}));
}

// Members that are null are left out; reasoning goes by three names.
OrderedJson prepared(const OrderedJson& messages) {
  OrderedJson all = OrderedJson::array();
  for (const OrderedJson& message : messages) {
    if (!message.is_object()) jinja::refuse("a message is no JSON object");
    OrderedJson kept = OrderedJson::object();
    for (auto entry = message.begin(); entry != message.end(); ++entry)
      if (!entry.value().is_null()) kept[entry.key()] = entry.value();
    for (const char* name : {"reasoning_content", "thinking", "reasoning"}) {
      if (!kept.contains(name)) continue;
      OrderedJson first = OrderedJson::object();
      const OrderedJson reasoning = kept[name];
      first["thinking"] = reasoning;
      for (auto entry = kept.begin(); entry != kept.end(); ++entry)
        first[entry.key()] = entry.value();
      first["reasoning_content"] = reasoning;
      kept = std::move(first);
      break;
    }
    all.push_back(std::move(kept));
  }
  return all;
}

}  // namespace

ChatTemplate::ChatTemplate(std::string_view source, ChatTemplateConfig config)
    : state_(new State{std::move(config), {}, false}) {
  const std::string& name = state_->config.name;
  require(text::valid_bytes(source) == source.size(), Status::bad_content,
          "{}: is no UTF-8 text", name);
  if (!state_->config.date.empty()) parse_date(state_->config.date);
  state_->block = naming(name, [&] { return jinja::parse_template(source); });
  state_->generates = has_generation(state_->block);
}

ChatTemplate::~ChatTemplate() = default;
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;

bool ChatTemplate::marks_generated() const { return state_->generates; }
const std::string& ChatTemplate::name() const { return state_->config.name; }

RenderedChat ChatTemplate::render(const Json& messages, bool prompt,
                                  const Json& variables) const {
  const auto tools = variables.find("tools");
  const bool has_tools = tools != variables.end() && !tools->empty();
  require(!has_tools || !state_->config.tools_have_another, Status::bad_content,
          "{}: is not for conversations with tools, for which the folder has a template "
          "named tool_use: write that into a file of its own, and name the file",
          state_->config.name);
  jinja::Interpreter interpreter(state_->config.limits);
  const auto run = [&] {
    jinja::Dict globals;
    const auto add = [&](const char* name, jinja::Function function) {
      globals.emplace_back(name, jinja::function_of(std::move(function)));
    };
    add("raise_exception", raise_exception);
    add("range", make_range);
    add("dict", make_dict);
    const std::string& date = state_->config.date;
    add("strftime_now", [&date](Budget&, const Arguments& arguments) {
      return time_text(date, arguments);
    });
    add("namespace", [&interpreter](Budget&, const Arguments& arguments) {
      return interpreter.make_namespace(arguments);
    });
    globals.emplace_back("tools", Value::none());
    globals.emplace_back("documents", Value::none());
    for (const auto& token : state_->config.special)
      globals.emplace_back(token.first, Value::of(token.second));
    for (auto entry = variables.begin(); entry != variables.end(); ++entry)
      globals.emplace_back(entry.key(), Value::of(entry.value()));
    globals.emplace_back("messages", Value::of(prepared(messages)));
    globals.emplace_back("add_generation_prompt", Value::of(prompt));
    return interpreter.render(state_->block, globals);
  };
  jinja::Written written;
  try {
    written = run();
  } catch (const Error& error) {
    const int line = interpreter.line();  // 0: it did not begin
    const std::string place = line > 0 ? ":" + std::to_string(line) : "";
    throw Error(error.status(), state_->config.name + place + ": " + error.what(),
                error.where());
  }
  RenderedChat chat{std::move(written.text), {}};
  for (const auto& part : written.generated)
    chat.generated.push_back({static_cast<std::uint32_t>(part.first),
                              static_cast<std::uint32_t>(part.second)});
  return chat;
}

namespace {

// The template in tokenizer_config.json: a text, or a list of them with names.
std::string template_of(const text::ConfigNode& node) {
  if (node.value().is_string()) return node.text();
  for (const text::ConfigNode& one : node.elements())
    if (one.at("name").text() == "default") return one.at("template").text();
  node.fail("holds no template that is named default");
}

bool has_template(const text::ConfigNode& node, std::string_view name) {
  if (node.value().is_string()) return false;
  const auto all = node.elements();
  return std::any_of(all.begin(), all.end(), [&](const text::ConfigNode& one) {
    return one.at("name").text() == name;
  });
}

// bos_token and the like.
std::map<std::string, std::string> special_tokens(const text::ConfigNode& root) {
  std::map<std::string, std::string> all;
  for (const char* name : {"bos_token", "eos_token", "unk_token", "sep_token",
                           "pad_token", "cls_token", "mask_token"}) {
    if (!root.has(name)) continue;
    const text::ConfigNode token = root.at(name);
    all[name] = token.value().is_object() ? token.at("content").text() : token.text();
  }
  return all;
}

}  // namespace

std::optional<ChatTemplate> open_chat_template(const std::string& folder,
                                               const std::string& file,
                                               const std::string& date) {
  ChatTemplateConfig config;
  config.date = date;
  std::optional<std::string> source;
  const Directory directory = Directory::to_read(folder);
  const std::string settings = folder + "/tokenizer_config.json";
  const std::string beside = folder + "/chat_template.jinja";
  if (directory.has("tokenizer_config.json")) {
    const auto json =
        text::parse_json(io::read_text(settings, most_file_bytes), settings);
    const text::ConfigNode root(json, settings);
    config.special = special_tokens(root);
    if (root.has("chat_template")) {
      source = template_of(root.at("chat_template"));
      config.tools_have_another = has_template(root.at("chat_template"), "tool_use");
      config.name = settings + ": chat_template";
    }
  }
  if (directory.has("additional_chat_templates"))
    config.tools_have_another |=
        directory.open("additional_chat_templates").has("tool_use.jinja");
  if (!file.empty()) config.tools_have_another = false;
  if (!file.empty() || directory.has("chat_template.jinja")) {
    config.name = file.empty() ? beside : file;
    source = io::read_text(config.name, most_file_bytes);
  }
  if (!source) return {};
  return ChatTemplate(*source, std::move(config));
}

}  // namespace trireme::data
