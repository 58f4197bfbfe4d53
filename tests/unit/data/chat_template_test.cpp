// Chat templates: where they are found, what bounds them, and what their errors say.
// SPDX-License-Identifier: Apache-2.0
#include "data/chat_template.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/error.hpp"

namespace trireme::data {
namespace {

using Json = ChatTemplate::Json;

const Json hello = Json::parse(R"([{"role": "user", "content": "hello"}])");

std::string rendered(const std::string& source, ChatTemplateConfig config = {}) {
  return ChatTemplate(source, std::move(config)).render(hello, false).text;
}

// The message of the refusal; its status is that of wrong content.
std::string refusal(const std::string& source, ChatTemplateConfig config = {}) {
  try {
    return "gave " + rendered(source, std::move(config));
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::bad_content);
    return error.what();
  }
}

void expect_refused(const std::string& source, const std::string& part) {
  const std::string message = refusal(source);
  EXPECT_NE(message.find(part), std::string::npos) << source.substr(0, 80) << "\n"
                                                   << message;
  EXPECT_LT(message.size(), 400u);
}

TEST(ChatTemplate, ErrorsNameTemplateAndLine) {
  EXPECT_EQ(refusal("a\n{{ x.y }}"), "chat template:2: 'x' is undefined");
  expect_refused("\n\n{% if %}", "chat template:3: an expression is expected");
  expect_refused("{{ raise_exception('no such role') }}",
                 "chat template:1: it refuses the conversation: no such role");
  expect_refused("{% include 'x' %}", "chat template:1: ");
  expect_refused("{% include 'y' %}", "not 'include'");
  for (const char* view : {"range(3)", "messages | map(attribute='role')", "{}.items()",
                           "[{'a': 1}.keys()]", "[1] | reverse", "{}.values() | tojson",
                           "messages | selectattr('role')", "[1] | batch(2)"})
    expect_refused(std::string("{{ ") + view + " }}", "put '| list'");
  expect_refused("{% macro f() %}{{ varargs }}{% endmacro %}", "'varargs'");
  expect_refused("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}", "nested");
  expect_refused("{{ 'a'.center(9223372036854775807) }}", "more than");
  expect_refused("{{ [1] | batch(9223372036854775807, 0) }}", "more than");
  expect_refused("{{ 'a' | truncate(-9223372036854775807) }}", "no room");
  expect_refused("{{ messages[0].content | nothing }}", "not 'nothing'");
  expect_refused("{{ f(*messages) }}", "are not supported");
  expect_refused("\xFF", "no UTF-8");
}

TEST(ChatTemplate, WhatDoesNotEndIsRefused) {
  const std::string endless =
      "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(9) %}"
      "{{ a }}{% endfor %}{% endfor %}{% endfor %}";
  ChatTemplateConfig few;
  few.limits.steps = 100'000;
  EXPECT_NE(refusal(endless, few).find("takes more than 100000 steps"),
            std::string::npos);
  ChatTemplateConfig small;
  small.limits.bytes = 1 << 20;
  const std::string doubling =
      "{% set ns = namespace(x='ab') %}{% for i in range(64) %}"
      "{% set ns.x = ns.x ~ ns.x %}{% endfor %}";
  EXPECT_NE(refusal(doubling, small).find("of text"), std::string::npos);
  expect_refused("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "nested");
  expect_refused("{{ range(1000000) }}", "100000");
  expect_refused("{{ 'x' * 99999999999 }}", "of text");
  expect_refused(
      "{% set ns = namespace(x=[]) %}{% for i in range(9999) %}"
      "{% set ns.x = [ns.x] %}{% endfor %}",
      "nested");
  expect_refused(
      "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}"
      "{% set ns.x = [ns.x, ns.x] %}{% endfor %}",
      "too large");
  std::string deep = "{{ ", chain = "{{ 1";
  for (int i = 0; i < 100'000; ++i) {
    deep += "(";
    chain += " + 1";
  }
  expect_refused(deep + "1" + std::string(100'000, ')') + " }}", "nested");
  expect_refused(chain + " }}", "nested");
  std::string blocks;
  for (int i = 0; i < 10'000; ++i) blocks += "{% if true %}";
  expect_refused(blocks, "nested");
}

// A namespace that holds itself, and a macro that its own scope holds, are given back:
// the sanitizers' build would say so otherwise.
TEST(ChatTemplate, ValuesThatHoldThemselvesAreGivenBack) {
  EXPECT_EQ(rendered("{% set ns = namespace() %}{% set ns.self = [ns] %}"
                     "{% macro f() %}{% endmacro %}{% set ns.f = f %}ok"),
            "ok");
}

TEST(ChatTemplate, GenerationBlocksAreMarked) {
  const ChatTemplate chat(
      "é{% generation %}one{% endgeneration %} {% if true %}"
      "{%- generation %}two{% endgeneration %}{% endif %}.",
      {});
  EXPECT_TRUE(chat.marks_generated());
  const RenderedChat out = chat.render(hello, false);
  EXPECT_EQ(out.text, "éone two.");
  EXPECT_EQ(out.generated, (std::vector<text::Range>{{2, 5}, {6, 9}}));
  EXPECT_FALSE(ChatTemplate("x", {}).marks_generated());
  expect_refused("{% set x %}{% generation %}{% endgeneration %}{% endset %}",
                 "unsupported");
}

TEST(ChatTemplate, TheClockIsADateThatIsGiven) {
  const std::string source = "{{ strftime_now('%d %B %Y') }}";
  expect_refused(source, "data.template_date");
  ChatTemplateConfig config;
  config.date = "2024-02-29";
  EXPECT_EQ(rendered(source, config), "29 February 2024");
  for (const char* wrong : {"2023-02-29", "2024-13-01", "2024-1-1", "yesterday"}) {
    config.date = wrong;
    EXPECT_NE(refusal(source, config).find("is no date"), std::string::npos) << wrong;
  }
}

TEST(ChatTemplate, ComesFromTheTokenizersFolder) {
  namespace fs = std::filesystem;
  const fs::path folder =
      fs::temp_directory_path() / ("chat_template_" + std::to_string(::getpid()));
  fs::create_directories(folder);
  const auto put = [&](const char* name, const std::string& text) {
    std::ofstream(folder / name) << text;
  };
  const auto first = [&](const std::string& file = "") {
    return open_chat_template(folder.string(), file, "")->render(hello, false).text;
  };
  EXPECT_FALSE(open_chat_template(folder.string(), "", "").has_value());
  put("tokenizer_config.json", R"({"bos_token": {"content": "<s>"}, "eos_token": null})");
  EXPECT_FALSE(open_chat_template(folder.string(), "", "").has_value());
  put("tokenizer_config.json", R"({"bos_token": {"content": "<s>"}, "chat_template":
      [{"name": "tool_use", "template": "no"},
       {"name": "default", "template": "{{ bos_token }}list{{ eos_token }}"}]})");
  EXPECT_EQ(first(), "<s>list");
  put("chat_template.jinja", "file {{ messages[0].content }}\n");
  EXPECT_EQ(first(), "file hello");
  put("own.jinja", "own {{ bos_token }}");
  EXPECT_EQ(first((folder / "own.jinja").string()), "own <s>");
  EXPECT_THROW(first((folder / "absent.jinja").string()), Error);
  fs::remove_all(folder);
}

}  // namespace
}  // namespace trireme::data
