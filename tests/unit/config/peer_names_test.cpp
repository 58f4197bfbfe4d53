// Keys that other programs have under other names are recognised.
// SPDX-License-Identifier: Apache-2.0
#include "io/peer_names.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "config/deck_table.hpp"
#include "io/deck.hpp"

namespace trireme::io {
namespace {

// What is wrong with a deck of one line.
std::string problem_of(const std::string& line) {
  const auto table = config::deck_table();
  const Deck deck = Deck::parse_leniently(line, "x.toml", {}, table);
  for (const auto& problem : deck.problems())
    if (problem.text.starts_with("unknown key")) return problem.message();
  return "";
}

TEST(PeerNames, AreOfKeysThatExistAndOfNoKeyOfOurs) {
  std::set<std::string> keys, names;
  for (const auto& key : config::deck_table()) keys.insert(full_name(key));
  for (const PeerName& peer : peer_names()) {
    const std::string name(peer.name), key(peer.key);
    EXPECT_TRUE(keys.contains(key)) << name << " is said to be " << key;
    EXPECT_TRUE(names.insert(name).second) << name << " is there twice";
    // Ours of that name in the same section would never be asked about.
    EXPECT_FALSE(keys.contains(key.substr(0, key.rfind('.') + 1) + name)) << name;
  }
}

TEST(PeerNames, AreSuggested) {
  const char* const cases[][2] = {
      {"model.hidden_size = 32", "model.hidden"},
      {"model.num_layers = 2", "model.layers"},
      {"optimizer.lr = 1e-3", "optimizer.learning_rate"},
      {"parallel.tp = 2", "parallel.tensor"},
      {"parallel.zero_stage = 3", "parallel.sharding_strategy"},
      {"batch.grad_accum = 4", "batch.global"},
      {"run.max-steps = 10", "run.steps"},
      {"optimizer.warmup_steps = 10", "optimizer.schedule.warmup"},
      {"parallel.pipeline_parallel_degree = 2", "parallel.pipeline"},
      {"batch.gbs = 8", "batch.global"},
      {"batch.size = 8", "batch.global"},
      {"checkpoint.interval = 8", "checkpoint.every"},
      {"checkpoint.path = 'x'", "run.directory"},
      {"run.wandb = true", "metrics.trackers"}};
  for (const auto& [line, key] : cases)
    EXPECT_NE(problem_of(line).find("did you mean '" + std::string(key) + "'?"),
              std::string::npos)
        << line << ": " << problem_of(line);
}

TEST(PeerNames, WithoutAKeySayWhatStandsInTheirPlace) {
  EXPECT_TRUE(problem_of("run.compile = true").ends_with("compiled with the program"));
  EXPECT_TRUE(problem_of("parallel.dp = 2").ends_with(": start more of them"));
  EXPECT_TRUE(problem_of("run.num-nodes = 2").ends_with("one for each GPU"));
  EXPECT_TRUE(problem_of("run.log_level = 2").ends_with("'trireme help train'"));
  EXPECT_EQ(advice_on("tensor"), "");
}

// A section that was copied from another program's file names its keys' places here.
TEST(PeerNames, AreNamedInASectionThatIsNotOurs) {
  const Deck deck =
      Deck::parse_leniently("[parallelism]\ntensor_parallel_degree = 2\nenabled = true\n",
                            "x.toml", {}, config::deck_table());
  ASSERT_FALSE(deck.problems().empty());
  EXPECT_EQ(key_of_peers("validation.every"), "metrics.validate_every");
  EXPECT_EQ(key_of_peers("lora.r"), "adapter.rank");  // alone it would say nothing
  EXPECT_EQ(key_of_peers("r"), "");
  const std::string message = deck.problems().front().message();
  EXPECT_NE(message.find("unknown section"), std::string::npos) << message;
  EXPECT_TRUE(message.ends_with("; tensor_parallel_degree is parallel.tensor"))
      << message;
}

// What a count counts is said where a text stands in its place.
TEST(PeerNames, CountsSayOfWhat) {
  const Deck deck = Deck::parse_leniently("checkpoint.every = \"1 hour\"", "x.toml", {},
                                          config::deck_table());
  ASSERT_FALSE(deck.problems().empty());
  EXPECT_NE(deck.problems().front().message().find("which counts steps"),
            std::string::npos);
}

// A slip within the section is likelier than another program's name.
TEST(PeerNames, GiveWayToASlipInTheSection) {
  EXPECT_NE(problem_of("model.head = 2").find("'model.heads'"), std::string::npos);
  EXPECT_EQ(key_of_peers("heads"), "");
}

}  // namespace
}  // namespace trireme::io
