// The sources chat and preference: forms of lines, what is learned, bad lines.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "data/chat_encoder.hpp"
#include "data/text_source.hpp"
#include "support/byte_tokenizer.hpp"

namespace trireme::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* plain =
    "{% for m in messages %}{{ m.role[0] }}:{{ m.content }}<m>{% endfor %}"
    "{% if add_generation_prompt %}a:{% endif %}";
constexpr const char* marked =
    "{% for m in messages %}{{ m.role[0] }}:{% if m.role == 'assistant' %}"
    "{% generation %}{{ m.content }}<m>{% endgeneration %}{% else %}{{ m.content }}<m>"
    "{% endif %}{% endfor %}";
// It says how many turns there are, so that a part is not written as in the whole.
constexpr const char* counting =
    "{{ messages | length }}{% for m in messages %}{{ m.content }}<m>{% endfor %}";

class ChatSourceTest : public testing::Test {
 protected:
  ChatSourceTest()
      : folder_(fs::temp_directory_path() /
                ("chat_source_" + std::to_string(::getpid()))) {
    fs::create_directories(folder_);
    put("tokenizer.json", test::byte_tokenizer());
    put("tokenizer_config.json", R"({"eos_token": "<e>"})");
    put("chat_template.jinja", plain);
  }
  ~ChatSourceTest() override { fs::remove_all(folder_); }

  std::string put(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return (folder_ / name).string();
  }

  std::unique_ptr<io::SampleSource> open(const std::string& lines, std::int64_t sequence,
                                         io::LossOn loss_on = io::LossOn::automatic,
                                         io::Packing packing = io::Packing::none,
                                         io::SourceKind kind = io::SourceKind::chat) {
    io::SourceConfig config;
    config.kind = kind;
    config.paths = {put("chat.jsonl", lines)};
    config.sequence = sequence;
    config.vocabulary = 258;
    config.tokenizer = folder_.string();
    config.loss_on = loss_on;
    config.packing = packing;
    config.threads = threads_;
    return data::open_source(config);
  }

  // A sample as text: what is no target in lower case as it is, targets between [ and ],
  // <e> as $, <m> as ;, what is missing as _, and | where a document begins.
  static std::string shown(const io::SampleSource& source, std::int64_t index,
                           std::int64_t sequence) {
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(sequence) + 1);
    source.sample(index, tokens);
    const io::SampleMarks marks = source.marks(index);
    std::string out;
    bool open = false;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const bool target = marks.no_target[i] == 0;
      if (open && !target) out += ']';
      if (i > 0 && marks.starts[i] != marks.starts[i - 1]) out += '|';
      if (!open && target) out += '[';
      open = target;
      out += tokens[i] < 0      ? '_'
             : tokens[i] == 256 ? '$'
             : tokens[i] == 257 ? ';'
                                : static_cast<char>(tokens[i]);
    }
    return out + (open ? "]" : "");
  }

  std::string first(const std::string& line, io::LossOn loss_on = io::LossOn::automatic,
                    std::int64_t sequence = 23) {
    return shown(*open(line + "\n", sequence, loss_on), 0, sequence);
  }

  std::unique_ptr<io::SampleSource> pairs(const std::string& lines, std::int64_t sequence,
                                          io::Packing packing = io::Packing::none) {
    return open(lines, sequence, io::LossOn::automatic, packing,
                io::SourceKind::preference);
  }

  std::string refusal(const std::string& lines,
                      io::LossOn loss_on = io::LossOn::automatic,
                      io::SourceKind kind = io::SourceKind::chat) {
    try {
      open(lines, 23, loss_on, io::Packing::none, kind);
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::bad_content) << error.what();
      return error.what();
    }
    return "accepted";
  }

  void expect_refused(const std::string& lines, const std::string& part,
                      io::LossOn loss_on = io::LossOn::automatic) {
    const std::string message = refusal(lines, loss_on);
    EXPECT_NE(message.find(part), std::string::npos) << message;
  }

  fs::path folder_;
  int threads_ = 1;
};

const std::string dialogue =
    R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "A"},
                     {"role": "user", "content": "r"}, {"role": "assistant", "content": "B"}]})";
std::string one_line_of(std::string text) {
  std::erase(text, '\n');
  return text;
}
const std::string talk = one_line_of(dialogue);

TEST_F(ChatSourceTest, EveryFormOfLineIsRead) {
  EXPECT_EQ(first(R"({"text": "hello"})"), "h[ello$]|__________________");
  EXPECT_EQ(first(R"({"prompt": "1+1=", "completion": "2"})"),
            "1+1=[2$]|__________________");
  EXPECT_EQ(first(talk), "u[:q;a:A;u:r;a:B;]|________");
  EXPECT_EQ(first(one_line_of(R"({"prompt": [{"role": "user", "content": "q"}],
"completion": [{"role": "assistant", "content": "A"}]})")),
            "u:q;a:[A;]|________________");
  EXPECT_EQ(first(R"({"instruction": "i", "input": "x", "output": "O"})"),
            "u:i\n\nx;a:[O;]|_____________");
  EXPECT_EQ(first(R"({"instruction": "i", "input": "", "output": "O"})"),
            "u:i;a:[O;]|________________");
  EXPECT_EQ(
      first(
          R"({"system": "S", "conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "A"}]})"),
      "s[:S;u:q;a:A;]|____________");
}

TEST_F(ChatSourceTest, LossIsOnWhatTheDeckSays) {
  const std::string by_turns = "u:q;a:[A;]u:r;a:[B;]|________";
  EXPECT_EQ(first(talk, io::LossOn::assistant), by_turns);
  EXPECT_EQ(first(talk, io::LossOn::all), "u[:q;a:A;u:r;a:B;]|________");
  put("chat_template.jinja", marked);
  EXPECT_EQ(first(talk, io::LossOn::assistant), by_turns);
  EXPECT_EQ(first(R"({"prompt": "1+1=", "completion": "2"})", io::LossOn::all),
            "1[+1=2$]|__________________");
}

TEST_F(ChatSourceTest, WhatCannotBeToldIsRefusedWithItsLine) {
  const std::string good = R"({"text": "x y"})"
                           "\n\n";
  expect_refused(good + talk + "\n", "chat.jsonl:1: is a text without turns",
                 io::LossOn::assistant);
  put("chat_template.jinja", counting);
  expect_refused("\n" + talk + "\n", "chat.jsonl:2: the template ",
                 io::LossOn::assistant);
  expect_refused(talk, "{% generation %}", io::LossOn::assistant);
  put("chat_template.jinja", plain);
  expect_refused(talk, "has no completion", io::LossOn::completion);
  put("chat_template.jinja", "{{ raise_exception('no ' ~ messages[0].role) }}");
  expect_refused(good + talk, "chat.jsonl:3: ");
  expect_refused(good + talk, "it refuses the conversation: no user");
  fs::remove(folder_ / "chat_template.jinja");
  expect_refused(talk, "data.chat_template");
  EXPECT_EQ(first(R"({"text": "hello"})"), "h[ello$]|__________________");
}

// Lines, their marks and the first error are those of one thread.
TEST_F(ChatSourceTest, ThreadsChangeNothing) {
  const auto letter = [](int i) {
    return std::string(1 + i % 5, static_cast<char>('a' + i % 26));
  };
  std::string talks, both;
  for (int i = 0; i < 300; ++i) {
    talks += R"({"messages": [{"role": "user", "content": ")" + letter(i) +
             R"("}, {"role": "assistant", "content": ")" + letter(i + 3) + "\"}]}\n";
    both += R"({"prompt": ")" + letter(i) + R"(", "chosen": ")" + letter(i + 1) +
            R"(", "rejected": ")" + letter(i + 2) + "\"}\n";
  }
  const auto all = [&] {
    std::string text;
    const auto chats = open(talks, 23, io::LossOn::assistant, io::Packing::best_fit);
    for (std::int64_t i = 0; i < chats->samples(); ++i) text += shown(*chats, i, 23);
    const auto answers = pairs(both, 23);
    for (std::int64_t i = 0; i < answers->samples(); ++i) text += shown(*answers, i, 23);
    return text + chats->describe() + answers->describe();
  };
  const std::string alone = all();
  threads_ = 4;
  EXPECT_EQ(all(), alone);
  const std::string message = refusal(talks + "[1]\n" + talks + "[2]\n\xff\n");
  EXPECT_NE(message.find("chat.jsonl:301: "), std::string::npos) << message;
}

TEST_F(ChatSourceTest, BrokenLinesAreOneMessage) {
  const std::string good = R"({"text": "x y"})"
                           "\n";
  const auto broken = [&](const std::string& line, const std::string& part) {
    const std::string message = refusal(good + line + "\n" + good);
    EXPECT_NE(message.find("chat.jsonl:2: "), std::string::npos) << message;
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  broken(R"({"text": "x)", "is no JSON");
  broken("[1]", "a JSON object is expected");
  broken("\"text\"", "object");
  broken("{}", "has none of messages");
  broken(R"({"text": 1})", "\"text\" must be a text");
  broken(R"({"messages": {}})", "must be a list");
  broken(R"({"messages": )" + std::string(500'000, '[') + std::string(500'000, ']') + "}",
         "are open at once");
  broken(R"({"messages": []})", "holds no message");
  broken(R"({"messages": ["x"]})", "messages[0] must be an object with a \"role\"");
  broken(R"({"messages": [{"content": "x"}]})", "\"role\"");
  broken(R"({"messages": [{"role": "user"}, {"role": 1}]})", "messages[1]");
  broken(R"({"prompt": "x", "completion": [{"role": "user"}]})",
         "two texts or two lists");
  broken(R"({"prompt": [], "completion": []})", "hold a message each");
  broken(R"({"prompt": "x"})", "has none of");
  broken(R"({"conversations": [{"from": "human"}]})", "\"from\" and \"value\"");
  broken(R"({"conversations": [{"from": "crowd", "value": "x"}]})", "is from \"crowd\"");
  broken(R"({"instruction": "x", "output": 3})", "\"output\" must be a text");
  broken(R"({"text": "x", "chat_template_kwargs": 1})", "must be an object");
  broken("{\"text\": \"\xFF\"}", "is no JSON");
  broken(R"({"text": "x", "text": "y"})", "the key 'text' comes twice");
  broken(R"({"messages": [{"role": "user", "content": "x", "role": "user"}]})",
         "the key 'role' comes twice");
  expect_refused("\n \n", "holds no conversation");
}

TEST_F(ChatSourceTest, LongOnesAreCutAndThoseWithoutTargetLeftOut) {
  const std::string late = R"({"prompt": "0123456789", "completion": "z"})";
  const auto source = open(late + "\n" + talk + "\n", 7, io::LossOn::automatic);
  ASSERT_EQ(source->samples(), 1);
  EXPECT_EQ(shown(*source, 0, 7), "u[:q;a:A;]");
  EXPECT_NE(source->describe().find("1 longer ones cut; 1 without a target left out"),
            std::string::npos)
      << source->describe();
  EXPECT_EQ(source->parts(0).at(0).tokens, 8);
  expect_refused(late.substr(0, 12) + std::string(40, 'p') + late.substr(12),
                 "model.sequence");
}

TEST_F(ChatSourceTest, PackedConversationsAreDocuments) {
  const std::string lines = R"({"prompt": "ab", "completion": "C"})"
                            "\n"
                            R"({"prompt": "def", "completion": "GH"})"
                            "\n"
                            R"({"text": "ij"})"
                            "\n";
  // The stream: abC$ defGH$ ij$.
  const auto stream = open(lines, 8, io::LossOn::automatic, io::Packing::concatenate);
  ASSERT_EQ(stream->samples(), 2);
  EXPECT_EQ(shown(*stream, 0, 8), "ab[C$]|def[GH]");
  EXPECT_EQ(shown(*stream, 1, 8), "[H$]|i[j$]|____");
  const auto rows = open(lines, 8, io::LossOn::automatic, io::Packing::best_fit);
  ASSERT_EQ(rows->samples(), 2);
  EXPECT_EQ(shown(*rows, 0, 8), "def[GH$]|i[j$]");
  EXPECT_EQ(shown(*rows, 1, 8), "ab[C$]|_____");
}

TEST_F(ChatSourceTest, TheLinesVariablesReachTheTemplate) {
  put("chat_template.jinja", "{{ bos_token }}{{ tools | length }}{{ style }}");
  EXPECT_EQ(
      first(
          R"({"messages": [{"role": "user"}], "tools": [{}, {}], "chat_template_kwargs": {"style": "bold", "bos_token": "^"}})"),
      "^[2bold]|__________________");
}

const std::string sums = R"({"prompt": "1+1=", "chosen": "2", "rejected": "11"})"
                         "\n";

TEST_F(ChatSourceTest, PairsAreTwoDocumentsOfASample) {
  const auto source = pairs(sums, 14);
  ASSERT_EQ(source->samples(), 1);
  EXPECT_EQ(source->answers(), 2);
  EXPECT_EQ(shown(*source, 0, 14), "1+1=[2$]|1+1=[11$]|__");
  const auto answers = source->marks(0).answers;
  EXPECT_EQ(answers, (std::vector<std::int64_t>{-1, -1, -1, -1, 0, 0, -1, -1, -1, -1, 1,
                                                1, 1, -1, -1}));
  EXPECT_EQ(source->parts(0).at(0).tokens, 13);
}

TEST_F(ChatSourceTest, EveryFormOfPairIsRead) {
  const auto of = [&](const std::string& line) {
    return shown(*pairs(line + "\n", 23), 0, 23);
  };
  const std::string user = R"({"role": "user", "content": "q"})";
  const auto assistant = [](const std::string& text) {
    return R"({"role": "assistant", "content": ")" + text + "\"}";
  };
  const std::string both = "u:q;a:[A;]|u:q;a:[BC;]|_______";
  EXPECT_EQ(of("{\"prompt\": [" + user + "], \"chosen\": [" + assistant("A") +
               "], \"rejected\": [" + assistant("BC") + "]}"),
            both);
  // What both begin with is the prompt.
  const std::string lists = "\"chosen\": [" + user + ", " + assistant("A") +
                            "], \"rejected\": [" + user + ", " + assistant("BC") + "]}";
  EXPECT_EQ(of("{" + lists), both);
  EXPECT_EQ(of("{\"prompt\": \"q\", " + lists), both);
}

TEST_F(ChatSourceTest, PairsAreNeverCutOrParted) {
  const std::string small = R"({"prompt": "a", "chosen": "B", "rejected": "C"})"
                            "\n";
  const auto source = pairs(small + sums + small, 13, io::Packing::best_fit);
  ASSERT_EQ(source->samples(), 2);
  std::vector<std::string> rows = {shown(*source, 0, 13), shown(*source, 1, 13)};
  std::sort(rows.begin(), rows.end());
  EXPECT_EQ(rows[0], "1+1=[2$]|1+1=[11$]|_");
  EXPECT_EQ(rows[1], "a[B$]|a[C$]|a[B$]|a[C$]|__");
  const auto two = pairs(small + sums + small, 11);
  EXPECT_EQ(two->samples(), 2);
  EXPECT_NE(two->describe().find("1 left out, longer than a sample: the longest has 13"),
            std::string::npos)
      << two->describe();
  try {
    pairs(sums, 11);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("no pair of answers fits"),
              std::string::npos);
  }
}

TEST_F(ChatSourceTest, BrokenPairsAreOneMessage) {
  const auto broken = [&](const std::string& line, const std::string& part) {
    const std::string message =
        refusal(sums + line + "\n", io::LossOn::automatic, io::SourceKind::preference);
    EXPECT_NE(message.find("chat.jsonl:2: "), std::string::npos) << message;
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  broken("{", "is no JSON");
  broken("[]", "a JSON object is expected");
  broken(R"({"prompt": "x", "chosen": "y"})", "has no \"rejected\"");
  broken(R"({"prompt": "x", "completion": "y"})", "has no \"chosen\"");
  broken(R"({"chosen": "y", "rejected": "z"})", "has no \"prompt\"");
  broken(R"({"prompt": 3, "chosen": "y", "rejected": "z"})", "must be a text");
  broken(R"({"prompt": "x", "chosen": "y", "rejected": []})", "two texts or two lists");
  broken(R"({"prompt": "x", "chosen": [], "rejected": []})", "is neither a list");
  broken(R"({"prompt": [], "chosen": [{"role": "user"}], "rejected": []})",
         "no message as a prompt");
  broken(R"({"prompt": [{"role": "user"}], "chosen": [], "rejected": []})",
         "holds no message behind the prompt");
  broken(R"({"prompt": [{"role": "user"}], "chosen": [{}], "rejected": []})",
         "chosen[0] must be an object with a \"role\"");
  broken(R"({"prompt": "x", "chosen": "y", "rejected": "z", "chosen": "w"})",
         "the key 'chosen' comes twice");
  const std::string none =
      refusal("\n", io::LossOn::automatic, io::SourceKind::preference);
  EXPECT_NE(none.find("holds no pair of answers: each line"), std::string::npos) << none;
}

}  // namespace
}  // namespace trireme::data
