// The time model of playbook_check on runs that it made itself, and its tables.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>
#include <utility>

#include "base/error.hpp"
#include "bench/playbook/dense.hpp"
#include "bench/playbook/judge.hpp"

namespace trireme::bench {
namespace {

constexpr const char* header =
    "model,nodes,mbs,gradacc,gbs,dp,pp,tp,zero,mfu_pct,tok_s_gpu,gpu_mem_GB\n";

class PlaybookFile : public ::testing::Test {
 protected:
  // The status and message with which `text` is refused.
  std::pair<int, std::string> refusal(const std::string& text) {
    std::ofstream(path_) << text;
    try {
      read_runs(path_);
    } catch (const Error& error) {
      return {static_cast<int>(error.status()), error.what()};
    }
    return {0, ""};
  }
  void TearDown() override { std::filesystem::remove(path_); }

  std::filesystem::path path_ = std::filesystem::temp_directory_path() /
                                ("playbook_test_" + std::to_string(::getpid()) + ".csv");
};

// Runs of every mesh of a few models, on up to 32 nodes; their seconds are the model's at
// `constants`, times a factor of a random spread.
std::vector<PlaybookRun> made_runs(std::span<const double> constants, double spread) {
  std::vector<PlaybookRun> runs;
  std::mt19937 random(7);
  std::normal_distribution<double> normal(0, spread);
  for (const PlaybookModel& model : playbook_models())
    for (const int nodes : {1, 4, 16, 32})
      for (const int tensor : {1, 2, 4, 8, 16, 32})
        for (const int pipeline : {1, 2, 8}) {
          const int ranks = nodes * 8, data = ranks / tensor / pipeline;
          for (const int micro : {1, 8}) {
            if (data == 0 || data * micro > 256) continue;
            PlaybookRun run{&model,     1. * nodes, 1. * micro, 256. / (data * micro),
                            256.,       data,       pipeline,   tensor,
                            micro == 1, 30,         1};
            const PlaybookCut cut = cut_playbook(model, pipeline);
            if (nearly_full(run, cut)) continue;
            run.seconds =
                step_time(run, cut, constants).normal * std::exp(normal(random));
            runs.push_back(run);
          }
        }
  return runs;
}

std::vector<double> other_constants() {
  std::vector<double> constants;
  for (const PlaybookConstant& constant : playbook_constants())
    constants.push_back(
        std::clamp(constant.start * 1.3, constant.low * 1.01, constant.high * 0.99));
  return constants;
}

TEST(PlaybookCut, GivesLayersToAStageAsLongAsTheyFitItsShare) {
  const auto& models = playbook_models();
  // 16 layers and a head that weighs 4: halves of 10, quarters of 5.
  EXPECT_EQ(cut_playbook(models[0], 2).layers, (std::vector<double>{10, 6}));
  EXPECT_EQ(cut_playbook(models[0], 2).head, 1);
  EXPECT_EQ(cut_playbook(models[0], 4).layers, (std::vector<double>{5, 5, 5, 1}));
  EXPECT_EQ(cut_playbook(models[0], 8).layers,
            (std::vector<double>{2, 3, 2, 3, 2, 3, 1, 0}));
  EXPECT_EQ(cut_playbook(models[0], 8).head, 7);
}

TEST(PlaybookConstants, AreAtMostFortyWithUnitsAndRanges) {
  EXPECT_LE(playbook_constants().size(), 40u);
  for (const PlaybookConstant& constant : playbook_constants()) {
    EXPECT_FALSE(constant.unit.empty()) << constant.name;
    EXPECT_LE(constant.low, constant.start) << constant.name;
    EXPECT_LE(constant.start, constant.high) << constant.name;
  }
}

TEST(PlaybookDense, SolvesWhatAPositiveMatrixAsks) {
  SquareMatrix a(2);
  a(0, 0) = 4, a(1, 0) = 2, a(1, 1) = 3;
  const auto x = solve_positive(a, {8, 8});  // 4 x + 2 y = 8, 2 x + 3 y = 8
  EXPECT_NEAR(x[0], 1, 1e-15);
  EXPECT_NEAR(x[1], 2, 1e-15);
  a(1, 1) = 0.5;
  EXPECT_THROW(solve_positive(a, {8, 8}), Error);
}

TEST(PlaybookFit, FindsTheTimesOfRunsMadeWithOtherConstants) {
  const std::vector<double> truth = other_constants();
  const std::vector<PlaybookRun> runs = made_runs(truth, 0);
  ASSERT_GT(runs.size(), 300u);
  const std::vector<FittedRun> fitted = with_cuts(runs);
  const std::vector<double> constants = fit_constants(fitted);
  for (const FittedRun& run : fitted) {
    const double seconds = step_time(run.run, run.cut, constants).normal;
    // Constants that hardly matter are not found, so times agree, not constants.
    EXPECT_NEAR(seconds / run.run.seconds, 1, 0.01) << run.run.model->name;
  }
  EXPECT_EQ(constants, fit_constants(fitted));  // to the bit
}

TEST(PlaybookPredictor, ReadsNothingThatWasMeasuredOfWhatItPredicts) {
  const std::vector<PlaybookRun> runs = made_runs(other_constants(), 0.03);
  const Predictor predictor(runs);
  std::vector<PlaybookRun> blind = runs;
  for (PlaybookRun& run : blind) run.seconds = std::nan(""), run.mfu = 0;
  const auto seen = predictor.predict(runs), unseen = predictor.predict(blind);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    EXPECT_EQ(seen[i].seconds(), unseen[i].seconds());
    // Four spreads of the noise, and what the fit of 29 constants leaves.
    EXPECT_NEAR(std::log(seen[i].seconds() / runs[i].seconds), 0, 4 * 0.03 + 0.02);
  }
}

TEST(PlaybookPredictor, TakesForSlowWhatHasSlowNeighbours) {
  std::vector<PlaybookRun> runs = made_runs(other_constants(), 0);
  const auto slowed = [](const PlaybookRun& run) {
    return run.pipeline == 8 && run.nodes == 4;
  };
  for (PlaybookRun& run : runs)
    if (slowed(run))
      run.seconds =
          step_time(run, cut_playbook(*run.model, run.pipeline), other_constants()).slow;
  const auto predictions = Predictor(runs).predict(runs);
  int found = 0, wrongly = 0, all = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    all += slowed(runs[i]);
    (slowed(runs[i]) ? found : wrongly) += predictions[i].slow;
  }
  EXPECT_GT(found, all / 2);
  EXPECT_EQ(wrongly, 0);
}

TEST(PlaybookPredictor, TakesForSlowWhatFillsItsGpu) {
  const PlaybookModel& model = playbook_models()[2];  // 8B
  const auto full = [&](double micro, double microbatches, int data, int pipeline) {
    const PlaybookRun run{&model, 4, micro, microbatches, 256, data, pipeline, 1,
                          true,   0, 1};
    return nearly_full(run, cut_playbook(model, pipeline));
  };
  EXPECT_TRUE(full(2, 16, 8, 4));
  EXPECT_FALSE(full(1, 32, 8, 4));  // half of the activations
  EXPECT_FALSE(full(2, 4, 32, 4));  // fills and empties the pipeline, and that is all
  EXPECT_FALSE(full(8, 1, 32, 1));  // no pipeline: there is no such state
  PlaybookRun run{&model, 4, 2, 16, 256, 8, 4, 1, true, 0, 1};
  const auto predictions = Predictor(made_runs(other_constants(), 0)).predict({{run}});
  EXPECT_TRUE(predictions.front().slow);  // though no neighbour was
}

TEST_F(PlaybookFile, SaysWhatIsWrongWithATable) {
  const std::string good = "1B,1,1,64,256,4,2,1,1,43.1,37802,20.6\n";
  EXPECT_EQ(refusal(header + good).first, 0);
  EXPECT_EQ(refusal("model,nodes\n1B,1\n").first, 65);
  EXPECT_EQ(refusal(header).first, 65);
  const auto unknown = refusal(header + good + "9B,1,1,64,256,4,2,1,1,43,1,1\n");
  EXPECT_EQ(unknown.first, 65);
  EXPECT_NE(unknown.second.find("line 3"), std::string::npos) << unknown.second;
  EXPECT_EQ(refusal(header + std::string("1B,1,x,64,256,4,2,1,1,43,1,1\n")).first, 65);
  EXPECT_EQ(refusal(header + std::string("1B,1,0,64,256,4,2,1,1,43,1,1\n")).first, 65);
  EXPECT_EQ(refusal(header + std::string("1B,1,1,64\n")).first, 65);
  std::filesystem::remove(path_);
  EXPECT_THROW(read_runs(path_), Error);
}

TEST_F(PlaybookFile, LeavesOutRunsThatContradictThemselves) {
  std::ofstream(path_) << header << "1B,1,1,128,256,1,8,1,1,0.6,485,18.4\n"
                       << "1B,1,1,64,256,4,2,1,1,43.1,0,20.6\n"
                       << "1B,1,1,64,256,4,2,1,1,43.1,37802,20.6\n";
  const auto runs = read_runs(path_);
  ASSERT_EQ(runs.size(), 3u);
  EXPECT_FALSE(runs[0].judgeable());  // 1 x 128 x 1 sequences are not 256
  EXPECT_FALSE(runs[1].judgeable());  // no time
  EXPECT_TRUE(runs[2].judgeable());
  EXPECT_NEAR(runs[2].seconds, 256 * 4096 / (37802. * 8), 1e-12);
  EXPECT_THROW(Predictor{runs}, Error);  // too few
}

}  // namespace
}  // namespace trireme::bench
