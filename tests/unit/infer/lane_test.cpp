// Lanes run all texts to their ends, also where few blocks are free.
// SPDX-License-Identifier: Apache-2.0
#include "infer/lane.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"

namespace trireme {
namespace {

using infer::BatchOptions;
using infer::Generated;
using infer::Generation;
using infer::Lane;
using infer::LaneModel;

std::vector<Generation> generations_of(
    std::initializer_list<std::pair<std::size_t, std::int64_t>> prompts_and_new) {
  std::vector<Generation> all;
  for (const auto& [prompt, fresh] : prompts_and_new) {
    Generation& one = all.emplace_back();
    one.prompt.assign(prompt, 1);
    one.max_new_tokens = fresh;
  }
  return all;
}

BatchOptions options_of_blocks() {
  BatchOptions options;
  options.step_tokens = 16;
  options.chunk = 4;
  options.texts = 4;
  options.block = 4;
  return options;
}

// Runs all generations on a lane with so many blocks and says how many texts ended.
// Counts those preempted.
std::size_t ended(const std::vector<Generation>& all, const LaneModel& model,
                  std::int64_t blocks, std::int64_t& preemptions) {
  const BatchOptions options = options_of_blocks();
  Lane::Queue queue;
  for (std::size_t i = 0; i < all.size(); ++i) queue.push_back(i);
  Lane lane(options, model, {infer::BlockPool({0, blocks})}, {0}, {0, options.texts}, all,
            queue);
  std::size_t texts = 0;
  for (int step = 0; step < 10000; ++step) {
    const std::vector<Lane::Piece> pieces = lane.plan();
    EXPECT_EQ(pieces.empty(), lane.is_idle());
    if (pieces.empty()) break;
    std::vector<std::int32_t> tokens;
    for (const Lane::Piece& piece : pieces)
      if (piece.samples) tokens.push_back(1);
    lane.take_in(pieces, tokens, std::vector<infer::TokenProbability>(tokens.size()),
                 [&](std::size_t number, Generated&& made) {
                   ++texts;
                   EXPECT_EQ(static_cast<std::int64_t>(made.tokens.size()),
                             all[number].max_new_tokens);
                 });
  }
  EXPECT_TRUE(lane.is_idle());
  preemptions = lane.preemptions();
  return texts;
}

// Texts on both sides of the original length take turns. Where it is the turn of the last
// one and it has no room, the other goes on.
TEST(Lane, TextsOfBothLengthsEnd) {
  for (const bool per_length : {false, true}) {
    const LaneModel model{64, false, 12, per_length};
    std::int64_t most = 0;
    for (std::size_t first = 1; first < 24; ++first) {
      for (std::size_t second = 1; second < 24; ++second) {
        const auto all = generations_of({{first, 12}, {second, 12}, {3, 5}});
        const auto longest = static_cast<std::int64_t>(std::max(first, second)) + 12;
        for (const std::int64_t more : {0, 1, 2, 4}) {
          std::int64_t preemptions = 0;
          ASSERT_EQ(ended(all, model, (longest + 3) / 4 + more, preemptions), all.size())
              << first << " " << second << " " << more;
          most = std::max(most, preemptions);
        }
      }
    }
    EXPECT_GT(most, 0);
  }
}

// A text that has no room alone is an error, not an endless loop.
TEST(Lane, ATextWithoutRoomIsAnError) {
  const auto all = generations_of({{9, 12}});
  std::int64_t preemptions = 0;
  EXPECT_THROW(ended(all, {64, false, 0, false}, 3, preemptions), Error);
}

}  // namespace
}  // namespace trireme
