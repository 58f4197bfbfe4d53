// What broken rules advise is tried: the deck with it is accepted.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <regex>
#include <sstream>

#include "base/philox.hpp"
#include "unit/config/deck_sample.hpp"

namespace trireme::test {
namespace {

using Words = std::vector<std::string>;

struct Advised {
  std::vector<std::string> overrides;  // one value each
  std::vector<int> ranks;
};

// "write A = 1 or B = 2, or start 4 ranks", "start 2 or 4 ranks".
Advised advised(const std::string& message) {
  Advised found;
  static const std::regex value(
      R"re(([a-z_.0-9]+\.[a-z_0-9]+) = ("[^"]*"|\[[^\]]*\]|[-+.e0-9]+|true|false))re");
  static const std::regex ranks(R"re(start (\d+)(?: or (\d+))? ranks?)re");
  // Advice begins at the last "write " or "start "; values before it are those in force.
  auto begin = message.rfind(": write ");
  if (begin == std::string::npos) begin = message.rfind(": start ");
  if (begin == std::string::npos) return found;
  const std::string text = message.substr(begin);
  for (std::sregex_iterator i(text.begin(), text.end(), value), end; i != end; ++i)
    found.overrides.push_back((*i)[1].str() + "=" + (*i)[2].str());
  for (std::sregex_iterator i(text.begin(), text.end(), ranks), end; i != end; ++i)
    for (const int group : {1, 2})
      if ((*i)[static_cast<std::size_t>(group)].matched)
        found.ranks.push_back(std::stoi((*i)[static_cast<std::size_t>(group)].str()));
  return found;
}

std::vector<std::string> problems_of(const Words& overrides, int ranks) {
  const auto [message, status] =
      error_of([&] { config::make_run_config(parse_sample(overrides), ranks); });
  std::vector<std::string> lines;
  std::istringstream text(status == Status::done ? "" : message);
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

// Every alternative of a deck's only problem mends it. Returns how many were tried.
int expect_accepted(const Words& overrides, int ranks) {
  const auto problems = problems_of(overrides, ranks);
  if (problems.size() != 1) return 0;
  SCOPED_TRACE(joined(overrides) + std::to_string(ranks) + " ranks: " + problems.front());
  const Advised advice = advised(problems.front());
  int tried = 0;
  if (problems.front().find(" and start ") != std::string::npos) {
    Words with = overrides;
    with.push_back(advice.overrides.at(0));
    EXPECT_EQ(joined(problems_of(with, advice.ranks.at(0))), "");
    return 1;
  }
  for (const std::string& fix : advice.overrides) {
    Words with = overrides;
    with.push_back(fix);
    EXPECT_EQ(joined(problems_of(with, ranks)), "") << fix;
    ++tried;
  }
  for (const int other : advice.ranks) {
    EXPECT_EQ(joined(problems_of(overrides, other)), "") << other << " ranks";
    ++tried;
  }
  return tried;
}

TEST(RunConfigAdvice, ImpossibleValuesOfBefore) {
  // 12 heads: 7 is less than 8, and does not divide them; of 66 by 4 heads, 68 makes odd
  // widths; 2 tensor ranks do not fit into 3.
  const std::vector<std::pair<Words, int>> decks = {
      {{"model.hidden=96", "model.heads=12", "model.feed_forward=7", "parallel.tensor=12",
        "batch.global=8"},
       12},
      {{"model.hidden=66", "model.heads=4"}, 1},
      {{"parallel.tensor=3"}, 3},
      {{"parallel.tensor=8", "model.heads=12", "model.hidden=96"}, 8},
      {{"batch.global=7", "batch.micro=2"}, 1},
      {{"batch.global=12", "batch.micro=8"}, 2},
      {{"optimizer.schedule.name=wsd", "optimizer.schedule.warmup=10"}, 1},
      {{"optimizer.schedule.name=wsd", "optimizer.schedule.warmup=9"}, 1},
      {{"model.heads=4", "model.kv_heads=3"}, 1},
      {{"parallel.context=4", "parallel.context_method=ulysses", "parallel.tensor=2"}, 8},
      {{"parallel.pipeline=2", "parallel.schedule=interleaved"}, 2},
      {{"parallel.pipeline=4"}, 4},
      {{"precision.compute=fp8", "model.hidden=72", "model.feed_forward=64"}, 1},
      {{"precision.compute=fp8", "model.heads=16", "model.hidden=64",
        "model.feed_forward=64", "parallel.tensor=8"},
       8},
      {{"precision.compute=fp8", "model.sequence=33", "model.feed_forward=64"}, 1},
      {{"model.architecture=mixtral", "model.moe.experts=6", "parallel.expert=4"}, 8},
      {{"model.architecture=mixtral", "model.moe.experts=6", "parallel.expert=4"}, 4},
      {{"parallel.sharding_strategy=HYBRID_SHARD", "parallel.shard_group=3"}, 4},
      {{"parallel.sharding_strategy=HYBRID_SHARD", "parallel.shard_group=3",
        "model.architecture=mixtral", "model.moe.experts=4", "parallel.expert=2"},
       6}};
  int tried = 0;
  for (const auto& [overrides, ranks] : decks) tried += expect_accepted(overrides, ranks);
  EXPECT_GE(tried, 20);
}

// Decks drawn at random: those with one problem say what to do about it.
TEST(RunConfigAdvice, IsAcceptedByTheRules) {
  int tried = 0;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    const Random random(seed, 1);
    std::uint64_t draws = 0;
    const auto one_of = [&](std::initializer_list<int> values) {
      return std::to_string(values.begin()[random.below(
          draws++, static_cast<std::uint64_t>(values.size()))]);
    };
    const auto text_of = [&](std::initializer_list<const char*> values) {
      return std::string(values.begin()[random.below(
          draws++, static_cast<std::uint64_t>(values.size()))]);
    };
    Words deck = {"model.hidden=" + one_of({48, 64, 66, 96, 120, 192}),
                  "model.heads=" + one_of({2, 3, 4, 6, 12}),
                  "model.kv_heads=" + one_of({0, 0, 1, 2, 4}),
                  "model.feed_forward=" + one_of({0, 5, 7, 64, 96}),
                  "model.layers=" + one_of({2, 4, 6}),
                  "model.sequence=" + one_of({32, 33, 48}),
                  "batch.global=" + one_of({6, 8, 12, 24}),
                  "batch.micro=" + one_of({1, 2, 3}),
                  "parallel.tensor=" + one_of({1, 2, 3, 4, 8}),
                  "parallel.context=" + one_of({1, 1, 2}),
                  "parallel.pipeline=" + one_of({1, 1, 2, 4}),
                  "parallel.sequence=" + text_of({"true", "false"}),
                  "parallel.schedule=" + text_of({"1f1b", "1f1b", "interleaved", "zb_v"}),
                  "precision.compute=" + text_of({"fp32", "bf16", "fp8"})};
    if (seed % 3 == 0) {
      deck.push_back("model.architecture=mixtral");
      deck.push_back("model.moe.experts=" + one_of({2, 4, 6}));
      deck.push_back("parallel.expert=" + one_of({1, 2, 4}));
    }
    tried += expect_accepted(deck, std::stoi(one_of({1, 2, 4, 6, 8, 12})));
    if (testing::Test::HasFailure()) break;
  }
  EXPECT_GE(tried, 15);
}

// State in fewer bits: the key that makes it so, not the recipe beside it.
TEST(RunConfigAdvice, NamesTheKeyThatIsTheCause) {
  const std::vector<Case> cases = {
      {{"optimizer.name=muon", "precision.compute=bf16", "precision.recipe=bf16",
        "precision.moments=bf16"},
       1,
       {"optimizer.name = \"muon\" needs", "precision.moments = \"bf16\" has fewer bits",
        "write precision.moments = \"auto\" or optimizer.name = \"adamw\""}},
      {{"optimizer.name=muon", "precision.compute=bf16", "precision.recipe=bf16_pure"},
       1,
       {"write precision.recipe = \"auto\" or optimizer.name = \"adamw\""}},
  };
  for (const Case& wrong : cases) expect_one_problem(wrong);
}

}  // namespace
}  // namespace trireme::test
