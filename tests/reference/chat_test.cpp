// Chat templates give the texts that transformers gives.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "data/chat_encoder.hpp"
#include "data/chat_template.hpp"

namespace trireme::data {
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
                                         "deepseek", "zephyr", "macros", "qwen25",
                                         "mistral7", "harmony", "coder", "commandr"),
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

// Lengths of runs of tokens without and with loss, in turn; empty: refused.
std::vector<std::size_t> runs_of(const ChatEncoder& encoder, const ChatLine& line) {
  std::vector<std::size_t> runs;
  EncodedChat chat;
  try {
    chat = encoder.encode(line, "place");
  } catch (const Error& error) {
    EXPECT_TRUE(std::string(error.what()).starts_with("place: ")) << error.what();
    return {};
  }
  std::uint8_t last = 0;
  for (const std::uint8_t learned : chat.learned) {
    if (runs.empty() || learned != last) runs.push_back(0);
    if (runs.size() == 1 && learned == 1 && runs[0] == 0) runs.push_back(0);
    last = learned;
    ++runs.back();
  }
  return runs;
}

class LossMasksOfTemplates : public testing::Test {
 protected:
  void compare(const std::string& prefix, const std::string& chat_template,
               io::LossOn loss_on, bool last_is_completion, const std::string& name) {
    const text::Tokenizer tokenizer(folder() + "../tokenizers/" + name + ".json");
    const ChatTemplate chat(text_of(chat_template), as_the_reference(chat_template));
    const ChatEncoder encoder(tokenizer, &chat, loss_on, 0);
    const auto conversations = lines_of("masks.messages.txt");
    const auto wanted = lines_of(prefix + ".txt");
    ASSERT_EQ(conversations.size(), 40u);
    ASSERT_EQ(wanted.size(), conversations.size());
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      SCOPED_TRACE(conversations[i].dump());
      const Json& messages = conversations[i];
      if (last_is_completion && messages.back()["role"] != "assistant") continue;
      ChatLine line;
      line.is_conversation = true;
      line.messages = messages;
      line.variables["date_string"] = "1 Jan 2020";
      line.has_completion = last_is_completion;
      line.prompt_messages = last_is_completion ? messages.size() - 1 : 0;
      EXPECT_EQ(runs_of(encoder, line), wanted[i].get<std::vector<std::size_t>>());
    }
  }
};

class LossMasks : public LossMasksOfTemplates,
                  public testing::WithParamInterface<const char*> {
 protected:
  void compare_own(const std::string& prefix, const std::string& chat_template,
                   io::LossOn loss_on, bool last_is_completion) {
    const std::string name = GetParam();
    compare(prefix + "." + name, chat_template, loss_on, last_is_completion, name);
  }
};

TEST_P(LossMasks, AreThoseOfTransformersByGenerationMarks) {
  compare_own("masks", "chatml_generation.jinja", io::LossOn::assistant, false);
}

// Where a token crosses the border of a turn, both refuse.
TEST_P(LossMasks, AreThoseByPrefixesOfTokens) {
  compare_own("prefixes", "chatml.jinja", io::LossOn::assistant, false);
}

TEST_P(LossMasks, AreThoseOfCompletions) {
  compare_own("completions", "chatml.jinja", io::LossOn::automatic, true);
}

// Templates that write a turn otherwise than alone are refused by both.
TEST_F(LossMasksOfTemplates, AreThoseByPrefixesOfTokens) {
  for (const std::string name :
       {"llama3", "gemma", "deepseek", "zephyr", "phi", "mistral", "qwen3", "qwen25",
        "mistral7", "harmony", "coder", "commandr"}) {
    SCOPED_TRACE(name);
    compare("prefixes." + name + ".template", name + ".jinja", io::LossOn::assistant,
            false, "qwen");
  }
}

INSTANTIATE_TEST_SUITE_P(All, LossMasks,
                         testing::Values("qwen", "llama3", "llama2", "gpt2", "deepseek"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace trireme::data
