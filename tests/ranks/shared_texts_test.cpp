// Texts become tokens on rank 0 alone, and every rank that reads has its samples.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "data/text_source.hpp"
#include "io/shared_source.hpp"
#include "support/byte_tokenizer.hpp"
#include "support/checkpoint_tensors.hpp"

namespace trireme {
namespace {

using io::Packing;
using io::SourceKind;
using test::world;

constexpr std::int64_t S = 15;

// Two files of each kind, which ranks other than 0 are told lie elsewhere.
class Texts {
 public:
  Texts() {
    if (world().rank() == 0) {
      put("tokenizer.json", test::byte_tokenizer());
      put("tokenizer_config.json", R"({"eos_token": "<e>"})");
      put("chat_template.jinja",
          "{% for m in messages %}{{ m.role[0] }}:{{ m.content }}<m>{% endfor %}");
      put("a.txt", "some words of a first file");
      put("b.txt", "and others, which are longer\x1f");
      put("a.jsonl", R"({"prompt": "1+1=", "completion": "2"})"
                     "\n"
                     R"({"prompt": "a long one that is cut ", "completion": "or is not"})"
                     "\n");
      put("b.jsonl", R"({"text": "a text"})"
                     "\n");
      put("a.pairs", R"({"prompt": "a", "chosen": "b", "rejected": "cd"})"
                     "\n"
                     R"({"prompt": "of more ", "chosen": "than fits", "rejected": "!"})"
                     "\n");
      put("b.pairs", R"({"prompt": "e", "chosen": "fg", "rejected": "h"})"
                     "\n");
    }
    world().barrier();
  }

  // here: whether the files are where the config says.
  io::SourceConfig config(SourceKind kind, Packing packing, bool here) const {
    const std::string at = here ? folder_.path() : folder_.path() + "/nowhere";
    io::SourceConfig config;
    config.kind = kind;
    config.sequence = S;
    config.vocabulary = 258;
    config.tokenizer = folder_.path();
    config.packing = packing;
    const char* ending = kind == SourceKind::text   ? ".txt"
                         : kind == SourceKind::chat ? ".jsonl"
                                                    : ".pairs";
    if (kind == SourceKind::bytes) {  // which each rank opens, if it reads
      config.paths = {folder_.path() + "/a.txt", folder_.path() + "/b.txt"};
      config.end_token = 0x1f;
      return config;
    }
    if (kind == SourceKind::blend) {
      config.blend = {{0.75, SourceKind::text, at + "/a.txt"},
                      {0.25, SourceKind::chat, at + "/a.jsonl"}};
    } else {
      for (const char* name : {"/a", "/b"}) config.paths.push_back(at + name + ending);
    }
    return config;
  }

 private:
  void put(const std::string& name, const std::string& text) const {
    std::ofstream(folder_.path() + "/" + name, std::ios::binary) << text;
  }
  test::SharedFolder folder_;
};

void expect_same_samples(const io::SampleSource& a, const io::SampleSource& b) {
  ASSERT_EQ(a.windows(), b.windows());
  for (std::int64_t index = 0; index < a.windows(); ++index) {
    std::vector<std::int32_t> of_a(S + 1), of_b(S + 1);
    a.sample(index, of_a);
    b.sample(index, of_b);
    EXPECT_EQ(of_a, of_b);
    const io::SampleMarks marks_a = a.marks(index), marks_b = b.marks(index);
    EXPECT_EQ(marks_a.starts, marks_b.starts);
    EXPECT_EQ(marks_a.no_target, marks_b.no_target);
    EXPECT_EQ(marks_a.answers, marks_b.answers);
    const auto parts_a = a.parts(index), parts_b = b.parts(index);
    ASSERT_EQ(parts_a.size(), parts_b.size());
    for (std::size_t i = 0; i < parts_a.size(); ++i) {
      EXPECT_EQ(parts_a[i].begin, parts_b[i].begin);
      EXPECT_EQ(parts_a[i].tokens, parts_b[i].tokens);
    }
  }
}

void expect_shared(const Texts& texts, SourceKind kind, Packing packing, bool reads) {
  SCOPED_TRACE(format("{}, packing {}, reads {}", io::name_of(kind),
                      static_cast<int>(packing), reads));
  const int rank = world().rank();
  auto config = texts.config(kind, packing, rank == 0);
  config.threads = 3;  // and one below, which makes the same
  std::int64_t kept = -1;
  const auto shared = io::open_shared(
      world(), config, [](const io::SourceConfig& c) { return data::open_source(c); },
      {.index = "", .reads = reads || rank == 0, .keeps = [&](std::int64_t bytes) {
         kept = bytes;
       }});
  const auto own = data::open_source(texts.config(kind, packing, true));
  EXPECT_EQ(shared->samples(), own->samples());
  EXPECT_EQ(shared->tokens(), own->tokens());
  EXPECT_EQ(shared->answers(), own->answers());
  EXPECT_EQ(shared->end_token(), own->end_token());
  EXPECT_EQ(shared->describe(), own->describe());
  if (reads || rank == 0) expect_same_samples(*shared, *own);
  if (kind == SourceKind::blend) return;
  // Ids, marks where there are any, and where documents end.
  const bool marks = kind == SourceKind::chat || kind == SourceKind::preference;
  EXPECT_EQ(own->kept_bytes() > 0,
            packing == Packing::best_fit || kind == SourceKind::preference);
  kept -= own->kept_bytes();
  EXPECT_EQ(io::keeps_texts(config), kind != SourceKind::bytes);
  if (!io::keeps_texts(config)) {
    EXPECT_EQ(kept, 0);
  } else if (reads || rank == 0) {
    EXPECT_GT(kept, (marks ? 5 : 4) * own->tokens());
    EXPECT_EQ((kept - (marks ? 5 : 4) * own->tokens()) % 8, 0);
  } else {
    EXPECT_LT(kept, 4 * own->tokens());
  }
}

TEST(SharedTexts, AreMadeOnRank0) {
  const Texts texts;
  for (const bool reads : {true, false}) {
    for (const auto packing : {Packing::none, Packing::concatenate, Packing::best_fit}) {
      expect_shared(texts, SourceKind::text, packing, reads);
      expect_shared(texts, SourceKind::chat, packing, reads);
      expect_shared(texts, SourceKind::blend, packing, reads);
      if (packing == Packing::concatenate) continue;
      expect_shared(texts, SourceKind::preference, packing, reads);
    }
    expect_shared(texts, SourceKind::bytes, Packing::best_fit, reads);
  }
}

// Its message comes from rank 0, whose files are wrong.
TEST(SharedTexts, AnErrorIsOfAllRanks) {
  const Texts texts;
  const auto config = texts.config(SourceKind::text, Packing::none, false);
  try {
    io::open_shared(world(), config,
                    [](const io::SourceConfig& c) { return data::open_source(c); }, {});
    FAIL() << "no error";
  } catch (const comm::Agreed& error) {
    EXPECT_EQ(error.status(), Status::missing_input);
    EXPECT_NE(std::string(error.what()).find("nowhere"), std::string::npos);
  }
}

}  // namespace
}  // namespace trireme
