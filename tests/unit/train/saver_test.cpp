// The checkpoints of a run: what they hold, which stay, and what training waits for.
// SPDX-License-Identifier: Apache-2.0
#include "train/saver.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "io/checkpoint_manifest.hpp"
#include "support/checkpoint_tensors.hpp"
#include "train/progress.hpp"
#include "unit/config/deck_sample.hpp"

namespace trireme::train {
namespace {

using test::SharedFolder;
using test::world;

// A saver of one weight, which the test changes as an update would.
class OneWeight {
 public:
  explicit OneWeight(const std::vector<std::string>& overrides = {}) {
    std::vector<std::string> all = {"run.directory=" + folder_.path()};
    all.insert(all.end(), overrides.begin(), overrides.end());
    const io::Deck deck = test::parse_sample(all);
    config_ = config::make_run_config(deck, 1);
    deck_ = deck.effective();
    start();
  }
  // As another start of the run does.
  void start() {
    saver_.emplace(world(), config_, deck_, [this] {
      return std::vector<io::TensorBox>{
          {"model/weight", {3}, {0}, {weight.data(), DType::f32, {3}}, true, true}};
    });
  }
  Saver& operator*() { return *saver_; }
  Saver* operator->() { return &*saver_; }
  std::string path() const { return folder_.path() + "/checkpoints"; }
  std::vector<std::int64_t> steps() const { return io::steps_in(path()); }
  // The weight that the checkpoint of a step has.
  std::vector<float> saved(std::int64_t step) const {
    const io::CheckpointReader reader(path() + "/" + io::step_name(step));
    EXPECT_EQ(reader.info().tokens, 100 * step);
    std::vector<float> values(3);
    reader.read("model/weight", {3}, {0}, {values.data(), DType::f32, {3}});
    return values;
  }

  std::vector<float> weight = {1, 2, 3};

 private:
  SharedFolder folder_;
  config::RunConfig config_;
  std::string deck_;
  std::optional<Saver> saver_;
};

// What a run of a hundred tokens a step has come to.
Progress at(std::int64_t step) {
  Progress progress;
  progress.step = step;
  progress.tokens = 100 * step;
  return progress;
}

TEST(Saver, WritesWhatTheWeightsAreNow) {
  OneWeight run;
  for (const std::int64_t step : {1, 2}) {
    run.weight[0] = static_cast<float>(10 * step);
    const auto saved = run->save(at(step));
    ASSERT_EQ(saved.size(), 1u);
    EXPECT_EQ(saved[0].step, step);
    EXPECT_GT(saved[0].bytes, 3 * 4);
    EXPECT_GT(saved[0].blocking_seconds, 0) << "training waited for it";
    EXPECT_TRUE(run->poll().empty()) << "nothing is under way";
  }
  EXPECT_EQ(run.saved(1), (std::vector<float>{10, 2, 3}));
  EXPECT_EQ(run.saved(2), (std::vector<float>{20, 2, 3}));
  EXPECT_TRUE(run->finish().empty());
}

// The copy is that of the step, whatever the weights become before it is on the disk.
TEST(Saver, ABackgroundCheckpointIsOfItsStep) {
  OneWeight run({"checkpoint.async=true"});
  run->inject(config::FaultKind::slow_copy);
  EXPECT_TRUE(run->save(at(1)).empty()) << "it is under way";
  run->before_update();
  run.weight = {7, 7, 7};
  const auto saved = run->finish();
  ASSERT_EQ(saved.size(), 1u);
  EXPECT_EQ(saved[0].step, 1);
  EXPECT_EQ(run.saved(1), (std::vector<float>{1, 2, 3}));
}

// The next one waits for the one before, and says that it stands.
TEST(Saver, ReportsEachCheckpointOnce) {
  OneWeight run({"checkpoint.async=true"});
  std::vector<std::int64_t> steps;
  const auto note = [&](const std::vector<Saved>& saved) {
    for (const Saved& one : saved) steps.push_back(one.step);
  };
  for (const std::int64_t step : {1, 2, 3}) {
    note(run->save(at(step)));
    run->before_update();
    note(run->poll());
  }
  note(run->finish());
  note(run->finish());
  EXPECT_EQ(steps, (std::vector<std::int64_t>{1, 2, 3}));
}

TEST(Saver, KeepsTheNewestAndWhatTheDeckKeeps) {
  OneWeight run({"checkpoint.keep=2", "checkpoint.keep_every=3"});
  run->save(at(1));
  run->started_from(1);
  for (const std::int64_t step : {2, 3, 4, 5}) run->save(at(step));
  EXPECT_EQ(run.steps(), (std::vector<std::int64_t>{1, 3, 4, 5}));
}

// The same at a step with a validation.
Progress validated(std::int64_t step, double loss) {
  Progress progress = at(step);
  progress.validated_step = step;
  progress.validation_loss = loss;
  return progress;
}

// Also those that an earlier start saved; that of an earlier step is no checkpoint's
// loss.
TEST(Saver, KeepsTheBestBesideTheNewest) {
  OneWeight run({"checkpoint.keep=1", "checkpoint.keep_best=2", "checkpoint.every=1",
                 "metrics.validate_every=1", "data.validation_paths=[\"LICENSE\"]"});
  const std::string link = run.path() + "/best";
  run->save(validated(1, 5.0));
  run->save(validated(2, 3.0));
  run->save(validated(3, 4.0));
  EXPECT_EQ(run.steps(), (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(std::filesystem::read_symlink(link), "step-00000002");
  run.start();
  run->save(validated(4, 4.5));
  EXPECT_EQ(run.steps(), (std::vector<std::int64_t>{2, 3, 4}));
  Progress later = validated(4, 1.0);
  later.step = 5;
  later.tokens = 500;
  run->save(later);
  EXPECT_EQ(run.steps(), (std::vector<std::int64_t>{2, 3, 5}));
  EXPECT_EQ(std::filesystem::read_symlink(link), "step-00000002");
  run->save(validated(6, 2.0));
  EXPECT_EQ(run.steps(), (std::vector<std::int64_t>{2, 6}));
  EXPECT_EQ(std::filesystem::read_symlink(link), "step-00000006");
  run->finish();
}

// Where the best are not kept any more, the link goes with what it names.
TEST(Saver, NoLinkIsLeftToNothing) {
  OneWeight run({"checkpoint.keep=1"});
  run->save(at(1));
  std::filesystem::create_symlink("step-00000001", run.path() + "/best");
  run->save(at(2));
  EXPECT_FALSE(std::filesystem::is_symlink(run.path() + "/best"));
}

// Else what a run has saved would lie in two places.
TEST(Saver, ADirectoryThatWasMovedIsNotMadeAnew) {
  OneWeight run;
  run->save(at(1));
  const std::string directory = parent_of(run.path()), moved = directory + "-moved";
  std::filesystem::rename(directory, moved);
  const auto refusal = [&] {
    const auto [text, status] = test::error_of([&] { run->save(at(2)); });
    EXPECT_EQ(status, Status::cannot_create);
    test::expect_contains(text, directory + ": was moved or removed while the run was");
  };
  refusal();
  EXPECT_FALSE(std::filesystem::exists(directory));
  std::filesystem::create_directory(directory);  // another one is not the run's
  refusal();
  std::filesystem::remove(directory);
  std::filesystem::rename(moved, directory);
  run->save(at(2));
  EXPECT_EQ(run.steps(), (std::vector<std::int64_t>{1, 2}));
}

// A failure is an error of the run, unless it ends for another reason already.
TEST(Saver, AFailureIsAnErrorOrAWarning) {
  OneWeight run({"checkpoint.async=true"});
  run->save(at(1));
  run->finish();
  std::filesystem::remove_all(run.path());
  std::ofstream(run.path()) << "a file, where the folder should be";
  const auto [text, status] = test::error_of([&] {
    run->save(at(2));
    run->finish();
  });
  EXPECT_EQ(status, Status::cannot_create) << text;
  EXPECT_NO_THROW(run->finish_quietly());
}

}  // namespace
}  // namespace trireme::train
