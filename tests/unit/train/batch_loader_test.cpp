// The loader: sequences of a data rank, errors, and that nothing is allocated or left.
// SPDX-License-Identifier: Apache-2.0
#include "train/batch_loader.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <set>

#include "base/error.hpp"
#include "base/split.hpp"
#include "train/sample_order.hpp"

namespace trireme::train {
namespace {

constexpr std::int64_t S = 5;

// Token j of sample i is 1000 i + j; sample `broken` throws; sample `ragged` has only its
// first 3 tokens.
class CountingSource : public io::SampleSource {
 public:
  std::int64_t samples() const override { return 97; }
  std::int64_t tokens() const override { return 0; }
  std::string describe() const override { return "counting"; }
  void sample(std::int64_t index, std::span<std::int32_t> tokens) const override {
    ++reads;
    require(index != broken, Status::io, "sample {} cannot be read", index);
    for (std::size_t j = 0; j < tokens.size(); ++j)
      tokens[j] = index == ragged && j >= 3
                      ? io::ignore_index
                      : static_cast<std::int32_t>(1000 * index + std::int64_t(j));
  }
  std::int64_t broken = -1, ragged = -1;
  mutable std::atomic<int> reads = 0;
};

BatchLoaderConfig config_of(std::int64_t global, std::int64_t micro,
                            std::int64_t data_rank, std::int64_t data_ranks,
                            std::int64_t first_step = 1) {
  return {.seed = 5,
          .global = global,
          .micro = micro,
          .microbatches = divide_up(global, micro * data_ranks),
          .data_rank = data_rank,
          .data_ranks = data_ranks,
          .sequence = S,
          .positions = {},
          .first_step = first_step};
}

TEST(BatchLoader, EveryMeshTrainsOnTheSameSequencesInEachStep) {
  const std::int64_t global = 24;
  const CountingSource source;
  for (const std::int64_t data_ranks : {1, 2, 3, 4})
    for (const std::int64_t micro : {1, 2}) {
      std::vector<std::multiset<std::int64_t>> steps(6);
      for (std::int64_t rank = 0; rank < data_ranks; ++rank) {
        BatchLoader loader(source, config_of(global, micro, rank, data_ranks));
        for (std::int64_t step = 1; step <= 6; ++step) {
          const engine::Batch& batch = loader.next();
          EXPECT_EQ(batch.step, step);
          EXPECT_EQ(batch.valid_tokens, global / data_ranks * S);
          for (const auto& inputs : batch.inputs)
            for (std::int64_t row = 0; row < micro; ++row)
              steps[static_cast<std::size_t>(step - 1)].insert(
                  inputs.data<std::int32_t>()[row * S] / 1000);
        }
      }
      for (std::int64_t step = 0; step < 6; ++step) {
        std::multiset<std::int64_t> expected;
        for (std::int64_t s = 0; s < global; ++s)
          expected.insert(sample_at(5, step * global + s, source.samples()));
        EXPECT_EQ(steps[static_cast<std::size_t>(step)], expected)
            << data_ranks << " data ranks, micro " << micro << ", step " << step + 1;
      }
    }
}

// Documents end with token 1000 i + 2: positions restart behind it, and it has no target.
class TwoDocuments : public CountingSource {
 public:
  void sample(std::int64_t index, std::span<std::int32_t> tokens) const override {
    CountingSource::sample(index, tokens);
    tokens[2] = 7;
  }
};

// Five microbatches: those of the step whatever the ranks, and stand-ins that hold
// something, but no target.
TEST(BatchLoader, DataRanksThatLackAMicrobatchStandIn) {
  const TwoDocuments source;
  const std::int64_t global = 10, micro = 2;
  for (const std::int64_t data_ranks : {2, 3, 4}) {
    SCOPED_TRACE(data_ranks);
    const std::int64_t own = global / micro / data_ranks;
    const std::int64_t lacking = (own + 1) * data_ranks - global / micro;
    std::vector<std::multiset<std::int64_t>> steps(3);
    for (std::int64_t rank = 0; rank < data_ranks; ++rank) {
      auto config = config_of(global, micro, rank, data_ranks);
      config.documents = engine::DocumentRule{.end_token = 7, .window = 0};
      BatchLoader loader(source, config);
      for (std::multiset<std::int64_t>& step : steps) {
        const engine::Batch& batch = loader.next();
        ASSERT_EQ(std::ssize(batch.inputs), own + 1);
        EXPECT_EQ(batch.stand_ins, lacking);
        EXPECT_EQ(batch.ends_with_stand_in, rank >= data_ranks - lacking);
        std::int64_t targets = 0;
        for (std::size_t m = 0; m < batch.inputs.size(); ++m) {
          std::int64_t here = 0;
          for (const std::int32_t id : batch.targets[m].span<std::int32_t>())
            here += id >= 0;
          targets += here;
          const bool stands_in = batch.ends_with_stand_in && m + 1 == batch.inputs.size();
          EXPECT_EQ(here == 0, stands_in);
          for (std::int64_t row = 0; row < micro && !stands_in; ++row)
            step.insert(batch.inputs[m].data<std::int32_t>()[row * S] / 1000);
          if (!stands_in) continue;
          const auto same = [](const TensorView& a, const TensorView& b) {
            return std::ranges::equal(a.span<std::int32_t>(), b.span<std::int32_t>());
          };
          EXPECT_TRUE(same(batch.inputs[m], batch.inputs[0]));
          EXPECT_TRUE(same(batch.documents[m].starts_T, batch.documents[0].starts_T));
          EXPECT_TRUE(
              same(batch.documents[m].positions_T, batch.documents[0].positions_T));
        }
        EXPECT_EQ(batch.valid_tokens, targets);
      }
    }
    for (std::size_t step = 0; step < steps.size(); ++step) {
      std::multiset<std::int64_t> expected;
      for (std::int64_t s = 0; s < global; ++s)
        expected.insert(
            sample_at(5, static_cast<std::int64_t>(step) * global + s, source.samples()));
      EXPECT_EQ(steps[step], expected);
    }
  }
}

TEST(BatchLoader, DocumentsHaveTheirOwnPositionsAndNoTargetAtTheirEnds) {
  const TwoDocuments source;
  auto config = config_of(4, 2, 0, 1);
  config.positions = {0, 1, 3, 4};  // as a context rank holds some of them
  config.documents = engine::DocumentRule{.end_token = 7, .window = 2};
  BatchLoader loader(source, config);
  for (int step = 0; step < 4; ++step) {
    const engine::Batch& batch = loader.next();
    EXPECT_EQ(batch.valid_tokens, 4 * 4);
    ASSERT_EQ(batch.documents.size(), 2u);
    for (const nn::Documents& documents : batch.documents) {
      const auto values = [](const TensorView& view) {
        const auto span = view.span<std::int32_t>();
        return std::vector<std::int32_t>(span.begin(), span.end());
      };
      EXPECT_EQ(values(documents.positions_T),
                (std::vector<std::int32_t>{0, 1, 0, 1, 0, 1, 0, 1}));
      EXPECT_EQ(values(documents.starts_T),
                (std::vector<std::int32_t>{0, 0, 3, 3, 0, 0, 3, 3}));
      EXPECT_EQ(values(documents.window_starts_T),
                (std::vector<std::int32_t>{0, 0, 3, 3, 0, 0, 3, 3}));
    }
  }
  config.positions = {1, 2, 3, 4};
  BatchLoader with_end(source, config);
  const engine::Batch& batch = with_end.next();
  EXPECT_EQ(batch.valid_tokens, 4 * 3);
  for (const TensorView& targets : batch.targets) {
    EXPECT_EQ(targets.span<std::int32_t>()[1], io::ignore_index);
    EXPECT_EQ(targets.span<std::int32_t>()[5], io::ignore_index);
  }
}

// A row of two documents of two tokens and padding, whose second document is read only.
class MarkedSource : public CountingSource {
 public:
  void sample(std::int64_t index, std::span<std::int32_t> tokens) const override {
    CountingSource::sample(index, tokens);
    tokens[4] = tokens[5] = io::ignore_index;
  }
  io::SampleMarks marks(std::int64_t) const override {
    return {.starts = {0, 0, 2, 2, 4, 4}, .no_target = {0, 0, 0, 1, 0, 0}};
  }
};

TEST(BatchLoader, MarksSayWhatIsNoTarget) {
  const MarkedSource source;
  auto config = config_of(2, 1, 0, 1);
  BatchLoader alone(source, config);
  const engine::Batch& batch = alone.next();
  EXPECT_EQ(batch.valid_tokens, 2);
  for (std::size_t m = 0; m < 2; ++m) {
    const auto inputs = batch.inputs[m].span<std::int32_t>();
    const auto targets = batch.targets[m].span<std::int32_t>();
    EXPECT_EQ(std::vector(inputs.begin() + 1, inputs.end()),
              (std::vector{inputs[0] + 1, inputs[0] + 2, inputs[0] + 3, 0}));
    EXPECT_EQ(std::vector(targets.begin(), targets.end()),
              (std::vector{inputs[0] + 1, -100, -100, -100, -100}));
  }
  config.documents = engine::DocumentRule{.end_token = io::ignore_index, .window = 0};
  BatchLoader packed(source, config);
  const engine::Batch& rows = packed.next();
  EXPECT_EQ(rows.valid_tokens, 2);
  const auto starts = rows.documents[1].starts_T.span<std::int32_t>();
  EXPECT_EQ(std::vector(starts.begin(), starts.end()), (std::vector{0, 0, 2, 2, 4}));
}

// Two steps of 2 sequences, then of 6: any mesh, and a start in between, has the
// sequences of the run's order one after another.
TEST(BatchLoader, StepsOfARampTakeTheNextSequences) {
  const CountingSource source;
  const auto stages = config::batch_stages(6, S, {{2, 4 * S}}, {});
  for (const std::int64_t data_ranks : {1, 2})
    for (const std::int64_t first_step : {1, 2, 3}) {
      std::vector<std::multiset<std::int64_t>> steps(4);
      for (std::int64_t rank = 0; rank < data_ranks; ++rank) {
        auto config = config_of(6, 1, rank, data_ranks, first_step);
        config.stages = stages;
        BatchLoader loader(source, config);
        for (std::int64_t step = first_step; step <= 4; ++step) {
          const engine::Batch& batch = loader.next();
          EXPECT_EQ(std::ssize(batch.inputs), (step < 3 ? 2 : 6) / data_ranks);
          EXPECT_EQ(batch.targets.size(), batch.inputs.size());
          EXPECT_EQ(batch.valid_tokens, std::ssize(batch.inputs) * S);
          for (const auto& inputs : batch.inputs)
            steps[static_cast<std::size_t>(step - 1)].insert(
                inputs.data<std::int32_t>()[0] / 1000);
        }
      }
      std::int64_t next = 2 * (std::min<std::int64_t>(first_step, 3) - 1);
      for (std::int64_t step = first_step; step <= 4; ++step) {
        std::multiset<std::int64_t> expected;
        for (int s = 0; s < (step < 3 ? 2 : 6); ++s)
          expected.insert(sample_at(5, next++, source.samples()));
        EXPECT_EQ(steps[static_cast<std::size_t>(step - 1)], expected) << step;
      }
    }
}

TEST(BatchLoader, ShorterSequencesBeginAnewAndKeepTheirTargets) {
  const TwoDocuments source;  // documents begin at 0 and 3
  auto config = config_of(2, 2, 0, 1);
  config.stages = config::batch_stages(2, S, {}, {{2, 1}});
  config.documents = engine::DocumentRule{.end_token = 7, .window = 0};
  BatchLoader loader(source, config);
  const auto row = [](const TensorView& view) {
    const auto span = view.span<std::int32_t>();
    return std::vector<std::int32_t>(span.begin(), span.begin() + S);
  };
  const engine::Batch& cut = loader.next();
  EXPECT_EQ(row(cut.documents[0].starts_T), (std::vector<std::int32_t>{0, 0, 2, 3, 4}));
  EXPECT_EQ(row(cut.documents[0].positions_T),
            (std::vector<std::int32_t>{0, 1, 0, 0, 0}));
  EXPECT_EQ(cut.valid_tokens, 2 * (S - 1));  // but for the document's end
  const engine::Batch& whole = loader.next();
  EXPECT_EQ(row(whole.documents[0].starts_T), (std::vector<std::int32_t>{0, 0, 0, 3, 3}));
  EXPECT_EQ(whole.valid_tokens, 2 * (S - 1));
}

TEST(BatchLoader, MicrobatchesAreDealtOutInTurn) {
  const CountingSource source;
  const auto config = config_of(12, 2, 1, 3, 4);
  BatchLoader loader(source, config);
  const engine::Batch& batch = loader.next();
  ASSERT_EQ(batch.step, 4);
  ASSERT_EQ(batch.inputs.size(), 2u);
  for (std::int64_t m = 0; m < 2; ++m) {
    const auto& inputs = batch.inputs[static_cast<std::size_t>(m)];
    const auto& targets = batch.targets[static_cast<std::size_t>(m)];
    ASSERT_EQ(inputs.shape(), (Shape{2 * S}));
    for (std::int64_t row = 0; row < 2; ++row) {
      const auto sample = sample_at(5, 3 * 12 + (m * 3 + 1) * 2 + row, source.samples());
      for (std::int64_t j = 0; j < S; ++j) {
        EXPECT_EQ(inputs.data<std::int32_t>()[row * S + j], 1000 * sample + j);
        EXPECT_EQ(targets.data<std::int32_t>()[row * S + j], 1000 * sample + j + 1);
      }
    }
  }
}

TEST(BatchLoader, ResumesAtAnyStep) {
  const CountingSource source;
  BatchLoader from_start(source, config_of(8, 2, 0, 2));
  for (int step = 1; step < 20; ++step) from_start.next();
  BatchLoader resumed(source, config_of(8, 2, 0, 2, 20));
  const engine::Batch &a = from_start.next(), &b = resumed.next();
  EXPECT_EQ(a.step, b.step);
  for (std::size_t m = 0; m < a.inputs.size(); ++m) {
    const auto left = a.inputs[m].span<std::int32_t>();
    const auto right = b.inputs[m].span<std::int32_t>();
    EXPECT_TRUE(std::equal(left.begin(), left.end(), right.begin()));
  }
}

TEST(BatchLoader, MissingTokensAreNoTargetsAndInputZero) {
  CountingSource source;
  source.ragged = sample_at(5, 1, source.samples());
  BatchLoader loader(source, config_of(2, 2, 0, 1));
  const engine::Batch& batch = loader.next();
  const auto inputs = batch.inputs[0].span<std::int32_t>();
  const auto targets = batch.targets[0].span<std::int32_t>();
  const auto first = static_cast<std::int32_t>(1000 * source.ragged);
  EXPECT_EQ(std::vector(inputs.begin() + S, inputs.end()),
            (std::vector<std::int32_t>{first, first + 1, first + 2, 0, 0}));
  EXPECT_EQ(std::vector(targets.begin() + S, targets.end()),
            (std::vector<std::int32_t>{first + 1, first + 2, -100, -100, -100}));
  EXPECT_EQ(batch.valid_tokens, S + 2);
}

TEST(BatchLoader, ErrorsComeWithTheirBatch) {
  CountingSource source;
  source.broken = sample_at(5, 4 * 2 + 1, source.samples());  // in step 3
  BatchLoader loader(source, config_of(4, 2, 0, 1));
  // The loader has met the error before the first batch is asked for.
  while (source.reads < 4 * 2 + 2) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  for (int step = 1; step <= 2; ++step) EXPECT_EQ(loader.next().step, step);
  for (int i = 0; i < 2; ++i) {
    try {
      loader.next();
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::io);
    }
  }
}

// The batch in use is never overwritten: the thread stops when the ring is full.
TEST(BatchLoader, KeepsTheBatchInUse) {
  const CountingSource source;
  BatchLoader loader(source, config_of(4, 4, 0, 1));
  for (int step = 1; step <= 50; ++step) {
    const auto inputs = loader.next().inputs[0].span<std::int32_t>();
    const std::vector<std::int32_t> before(inputs.begin(), inputs.end());
    // Reads of all batches that the loader may prepare: up to two ahead of this one.
    while (source.reads < 4 * (step + 2)) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    EXPECT_EQ(source.reads, 4 * (step + 2));
    EXPECT_TRUE(std::equal(inputs.begin(), inputs.end(), before.begin()));
  }
}

TEST(BatchLoader, AllocatesOnlyAtTheStart) {
  const auto before = memory_use(MemoryClass::data).bytes;
  {
    const CountingSource source;
    BatchLoader loader(source, config_of(8, 2, 0, 1));
    const auto allocations = memory_allocations();
    EXPECT_GE(memory_use(MemoryClass::data).bytes - before, 3 * 2 * 8 * S * 4 + 6 * 4);
    for (int step = 0; step < 30; ++step) loader.next();
    EXPECT_EQ(memory_allocations(), allocations);
  }
  EXPECT_EQ(memory_use(MemoryClass::data).bytes, before);
}

TEST(BatchLoader, StopsAtAnyMoment) {
  const CountingSource source;
  for (int i = 0; i < 200; ++i) {
    BatchLoader loader(source, config_of(4, 1, 0, 1));
    for (int step = 0; step < i % 5; ++step) loader.next();
  }
}

TEST(BatchLoader, RefusesAContradiction) {
  const CountingSource source;
  auto config = config_of(8, 2, 0, 2);
  config.global = 9;
  EXPECT_THROW(BatchLoader(source, config), Error);
  config = config_of(8, 2, 2, 2);
  EXPECT_THROW(BatchLoader(source, config), Error);
}

}  // namespace
}  // namespace trireme::train
