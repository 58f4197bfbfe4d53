// Rules about linear attention (model.linear, model.layer_types), broken one by one.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "unit/config/deck_sample.hpp"

namespace trireme::test {
namespace {

// A legal deck of a model with linear attention, and what is written besides.
std::vector<std::string> linear(const std::vector<std::string>& more) {
  std::vector<std::string> all = {
      "model.architecture=qwen3_5", "model.linear.key_heads=4",
      "model.linear.value_heads=8", "model.linear.key_width=8",
      "model.linear.value_width=8"};
  for (const std::string& each : more) {
    const std::string key = each.substr(0, each.find('=') + 1);
    std::erase_if(all, [&](const std::string& had) { return had.starts_with(key); });
    all.push_back(each);
  }
  return all;
}

const std::vector<Case> cases = {
    {{"model.linear.key_heads=4"},
     1,
     {"model.linear.key_heads = 4 has no meaning with model.architecture = \"llama\", "
      "which has no linear attention: remove it"}},
    {linear({"model.linear.key_heads=0"}),
     1,
     {"model.architecture = \"qwen3_5\" with model.linear.key_heads = 0",
      "write how many heads"}},
    {linear({"model.linear.key_heads=3"}),
     1,
     {"model.linear.key_heads = 3", "model.linear.value_heads = 8"}},
    {linear({"model.linear.key_heads=2", "parallel.tensor=4"}),
     4,
     {"parallel.tensor = 4", "model.linear.key_heads = 2"}},
    {linear({"parallel.tensor=2", "parallel.context=4"}),
     8,
     {"model.linear.key_heads = 4 / parallel.tensor = 2 must be divisible by "
      "parallel.context = 4, whose ranks share the heads of linear attention",
      "write parallel.context = 2"}},
    {linear({R"(model.layer_types=["linear_attention"])"}),
     1,
     {"does not have as many words as there are layers"}},
    {linear({R"(model.layer_types=["linear_attention", "sliding_attention"])"}),
     1,
     {"has layers with a window, but model.window = 0"}},
    {linear({R"(model.layer_types=["linear_attention", "recurrent"])"}),
     1,
     {"has another word than"}},
    {{"model.window=5", R"(model.layer_types=["linear_attention", "full_attention"])"},
     1,
     {"has layers with linear attention, which model.architecture = \"llama\" has not"}},
};

TEST(LinearRules, EachRuleBroken) {
  for (const auto& wrong : cases) expect_one_problem(wrong);
}

TEST(LinearRules, FourthLayersAreFullUnlessWordsSayOtherwise) {
  const auto plain = config::make_run_config(
      parse_sample(linear({"model.layers=8", "parallel.tensor=4"})), 4);
  for (std::int64_t layer = 0; layer < 8; ++layer)
    EXPECT_EQ(plain.model.is_linear(layer), layer % 4 != 3) << layer;
  const auto words = config::make_run_config(
      parse_sample(
          linear({R"(model.layer_types=["full_attention", "linear_attention"])"})),
      1);
  EXPECT_FALSE(words.model.is_linear(0));
  EXPECT_TRUE(words.model.is_linear(1));
  EXPECT_EQ(words.model.attention.linear.taps, 4);
}

}  // namespace
}  // namespace trireme::test
