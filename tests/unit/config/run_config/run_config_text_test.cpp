// Rules about what needs a tokenizer: no advice leads back to where it began.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "unit/config/deck_sample.hpp"

namespace trireme::test {
namespace {

using Words = std::vector<std::string>;

const Words synthetic = {"data.source=synthetic", "data.paths=[]",
                         "model.vocabulary=300"};

Words with(Words deck, const Words& more) {
  deck.insert(deck.end(), more.begin(), more.end());
  return deck;
}

TEST(TextRules, SamplesOfTextFromDataWithoutWords) {
  const Words sampled = {"metrics.sample_every=5", "metrics.sample_prompts=[\"a\"]"};
  expect_mended(with(synthetic, sampled),
                {"data.source = \"synthetic\" has token ids only: write another "
                 "data.source, or metrics.sample_every = 0 and metrics.sample_prompts = "
                 "[]"},
                {"metrics.sample_every=0", "metrics.sample_prompts=[]"});
  expect_mended(with(sampled, {"data.source=tokens", "model.vocabulary=300"}),
                {"write data.tokenizer = \"tokenizer.json\", or"},
                {"data.tokenizer=\"tokenizer.json\""});
}

TEST(TextRules, InfillingOfDataWithoutWords) {
  const Words off = {"data.fim_rate=0.0", "data.fim_spm=0.5"};
  for (const Words& data : {synthetic, Words{"data.source=bytes"}})
    expect_mended(with(data, {"data.fim_rate=0.5", "data.fim_spm=0.25"}),
                  {"has no tokenizer: write another data.source, or data.fim_rate = 0.0 "
                   "and data.fim_spm = 0.5"},
                  off);
  expect_mended({"data.source=tokens", "model.vocabulary=300", "data.fim_rate=0.5"},
                {"data.fim_rate = 0.5 cuts text, but data.tokenizer = \"\": write "
                 "data.tokenizer = \"tokenizer.json\", or data.fim_rate = 0.0"},
                {"data.tokenizer=\"tokenizer.json\""});
}

TEST(TextRules, InfillingOfConversations) {
  const Words chat = {"data.tokenizer=\"tokenizer.json\"", "model.vocabulary=300",
                      "data.fim_rate=0.5"};
  for (const Words& data :
       {Words{"data.source=chat"},
        Words{"data.source=blend", "data.paths=[]", "data.blend=[\"1 chat a.jsonl\"]"}})
    expect_mended(with(chat, data),
                  {"data.fim_rate = 0.5 is for texts, but data.source = ",
                   "write data.fim_rate = 0.0"},
                  {"data.fim_rate=0.0"});
}

}  // namespace
}  // namespace trireme::test
