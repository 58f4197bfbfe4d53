// Chat templates give the texts that transformers gives.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "text/chat_template.hpp"

namespace trireme::text {
namespace {

using Json = ChatTemplate::Json;

std::string folder() {
  const char* source = std::getenv("TRIREME_SOURCE");
  return std::string(source != nullptr ? source : ".") + "/tests/reference/chat/";
}

std::string text_of(const std::string& name) {
  std::ifstream in(folder() + name, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::vector<Json> lines_of(const std::string& name) {
  std::ifstream in(folder() + name);
  std::vector<Json> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(Json::parse(line));
  return lines;
}

ChatTemplateConfig as_the_reference(const std::string& name) {
  ChatTemplateConfig config;
  config.name = name;
  config.special = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
  config.date = "2026-01-31";
  return config;
}

// The text of a template, or nothing where it is refused.
Json rendered(const std::string& source, const Json& conversation, bool prompt) {
  Json variables = conversation;
  variables.erase("messages");
  try {
    const ChatTemplate chat(source, as_the_reference("template"));
    return chat.render(conversation["messages"], prompt, variables).text;
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::bad_content) << error.what();
    return {{"error", error.what()}};
  }
}

void expect_same(const Json& found, const Json& wanted) {
  if (wanted.is_object()) {
    EXPECT_TRUE(found.is_object())
        << "gave " << found << ", the reference refuses: " << wanted;
  } else {
    EXPECT_EQ(found, wanted);
  }
}

class PublishedTemplate : public testing::TestWithParam<const char*> {};

TEST_P(PublishedTemplate, GivesTheTextsOfTransformers) {
  const std::string name = GetParam();
  const std::string source = text_of(name + ".jinja");
  const auto conversations = lines_of("conversations.txt");
  const auto wanted = lines_of(name + ".txt");
  ASSERT_GT(conversations.size(), 20u);
  ASSERT_EQ(wanted.size(), 2 * conversations.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    SCOPED_TRACE(conversations[i / 2].dump());
    expect_same(rendered(source, conversations[i / 2], i % 2 == 1), wanted[i]);
  }
}

INSTANTIATE_TEST_SUITE_P(All, PublishedTemplate,
                         testing::Values("chatml", "chatml_generation", "llama2",
                                         "llama3", "mistral", "gemma", "phi", "qwen3",
                                         "deepseek", "zephyr", "macros"),
                         [](const auto& info) { return std::string(info.param); });

TEST(ChatTemplates, EachConstructIsJinjas) {
  const Json conversation = lines_of("conversations.txt")[1];
  const auto snippets = lines_of("snippets.txt");
  ASSERT_GT(snippets.size(), 90u);
  for (const Json& snippet : snippets) {
    SCOPED_TRACE(snippet[0].get<std::string>());
    expect_same(rendered(snippet[0].get<std::string>(), conversation, true), snippet[1]);
  }
}

}  // namespace
}  // namespace trireme::text
