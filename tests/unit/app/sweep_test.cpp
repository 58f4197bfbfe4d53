// Sweeps: points of grids and lists, manifests, what is run again.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "app/shell.hpp"
#include "app/sweep_manifest.hpp"
#include "app/sweep_points.hpp"
#include "app/sweep_status.hpp"
#include "base/error.hpp"
#include "io/digest.hpp"

namespace trireme::app {
namespace {

namespace fs = std::filesystem;
using Texts = std::vector<std::string>;
using Points = std::vector<Texts>;

Points grid(const Texts& grids) { return sweep_points(grids, "", ""); }

void expect_refused(const Texts& grids, const std::string& list, Status status,
                    const std::string& words) {
  try {
    sweep_points(grids, list, list.empty() ? "" : "points.txt");
    ADD_FAILURE() << "not refused: " << words;
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), status);
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
}

TEST(SweepPoints, TheLastGridVariesFastest) {
  EXPECT_EQ(grid({"a.x=1,2", "a.y=p, q ,r"}), (Points{{"a.x=1", "a.y=p"},
                                                      {"a.x=1", "a.y=q"},
                                                      {"a.x=1", "a.y=r"},
                                                      {"a.x=2", "a.y=p"},
                                                      {"a.x=2", "a.y=q"},
                                                      {"a.x=2", "a.y=r"}}));
}

TEST(SweepPoints, ValuesAreToml) {
  EXPECT_EQ(grid({"o.lr=1e-4,3e-4"}), (Points{{"o.lr=1e-4"}, {"o.lr=3e-4"}}));
  EXPECT_EQ(grid({R"(d.paths=["a,b", 'c'],["d"])"}),
            (Points{{R"(d.paths=["a,b", 'c'])"}, {R"(d.paths=["d"])"}}));
  EXPECT_EQ(grid({R"(r.name="x,\"y,",'a"b')"}),
            (Points{{R"(r.name="x,\"y,")"}, {R"(r.name='a"b')"}}));
  EXPECT_EQ(grid({R"(r.name="\\",b)"}), (Points{{R"(r.name="\\")"}, {"r.name=b"}}));
  EXPECT_EQ(grid({"o.betas=[0.9, 0.95],[0.9, 0.99]"}),
            (Points{{"o.betas=[0.9, 0.95]"}, {"o.betas=[0.9, 0.99]"}}));
}

TEST(SweepPoints, ListsGoTogetherAndVarySlowest) {
  EXPECT_EQ(
      sweep_points({"c.z=1,2"}, "# both\na.x=1  b.y='p q' # one\n\na.x=2\tb.y=[1, 2]\n",
                   "points.txt"),
      (Points{{"a.x=1", "b.y='p q'", "c.z=1"},
              {"a.x=1", "b.y='p q'", "c.z=2"},
              {"a.x=2", "b.y=[1, 2]", "c.z=1"},
              {"a.x=2", "b.y=[1, 2]", "c.z=2"}}));
}

TEST(SweepPoints, MistakesAreNamed) {
  const auto command = Status::command_line, content = Status::bad_content;
  expect_refused({"a.x"}, "", command, "'a.x' is no section.key=value");
  expect_refused({"=1"}, "", command, "is no section.key=value");
  expect_refused({"a.x=1,,2"}, "", command, "a value is empty");
  expect_refused({"a.x="}, "", command, "a value is empty");
  expect_refused({"a.x=1,2,"}, "", command, "a comma too many");
  expect_refused({"a.x=1, "}, "", command, "a value is empty");
  expect_refused({","}, "", command, "is no section.key=value");
  expect_refused({"a.x=1", "a.x=2"}, "", command, "a.x is given twice");
  expect_refused({"run.directory=a,b"}, "", command, "run.directory is the sweep's own");
  expect_refused({"a.x=1"}, "a.x=3\n", command, "a.x is given twice");
  expect_refused({}, "b.y=1\na.x=3 a.x=4\n", content, "points.txt:2: a.x is given twice");
  expect_refused({}, "b.y\n", content, "points.txt:1: 'b.y' is no section.key=value");
  expect_refused({}, "# nothing\n", content, "has no point");
  Texts many(6, "");
  for (std::size_t i = 0; i < many.size(); ++i)
    many[i] = "a." + std::string(1, static_cast<char>('a' + i)) + "=1,2,3,4,5,6,7,8,9,10";
  expect_refused(many, "", command, "more than 100000 points");
  std::string lines;
  for (int i = 0; i <= 100000; ++i) lines += "a.x=1\n";
  expect_refused({}, lines, content, "points.txt:100001: the list has more than");
}

class SweepManifestTest : public testing::Test {
 protected:
  SweepManifestTest() {
    std::string name = fs::temp_directory_path() / "trireme-sweep-XXXXXX";
    folder_ = ::mkdtemp(name.data());
    put("deck.toml", "[run]\n");
    manifest_.directory = folder_;
    manifest_.deck = "deck.toml";
    manifest_.deck_digest = io::digest_of("[run]\n");
    manifest_.ranks = 2;
    manifest_.base = {"run.steps=3"};
    manifest_.points = {{"point-0000", {"a.x=\"q\\\"\"", "b=[1, 2]"}, "d0"},
                        {"point-0001", {"a.x='z'"}, "d1"}};
  }
  ~SweepManifestTest() override { fs::remove_all(folder_); }
  void put(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ + "/" + name, std::ios::binary) << text;
  }
  void expect_damaged(const std::string& text, const std::string& words) const {
    put("sweep.toml", text);
    try {
      SweepManifest::read(folder_ + "/sweep.toml");
      ADD_FAILURE() << "not refused: " << words;
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::bad_content);
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  }
  std::string folder_;
  SweepManifest manifest_;
};

TEST_F(SweepManifestTest, ReadsBack) {
  put("sweep.toml", manifest_.toml());
  const auto back = SweepManifest::read(folder_ + "/sweep.toml");
  EXPECT_EQ(back.toml(), manifest_.toml());
  EXPECT_EQ(back.deck_words(0),
            (Texts{folder_ + "/deck.toml", "run.steps=3", "a.x=\"q\\\"\"", "b=[1, 2]",
                   "run.directory=\"" + folder_ + "/point-0000\""}));
  EXPECT_EQ(back.run_directory(1), folder_ + "/point-0001");
}

TEST_F(SweepManifestTest, DamageIsFound) {
  const std::string good = manifest_.toml();
  expect_damaged(good.substr(0, good.rfind("[[point]]")), "1 of 2 points");
  expect_damaged(good.substr(0, good.size() - 8), "sweep.toml");
  expect_damaged("format = 2\n", "format 2 is not known");
  expect_damaged("", "is no sweep");
  expect_damaged("[run]\nsteps = 3\n", "is no sweep");
  manifest_.points[1].name = "../elsewhere";
  expect_damaged(manifest_.toml(), "point 1 has no name");
  put("deck.toml", "[model]\n");
  expect_damaged(good, "is not the deck that");
}

TEST(SweepStatus, ArraysAreShort) {
  EXPECT_EQ(array_expression({}), "");
  EXPECT_EQ(array_expression({5}), "5");
  EXPECT_EQ(array_expression({0, 1}), "0,1");
  EXPECT_EQ(array_expression({0, 1, 2, 4, 6, 7, 8, 9}), "0-2,4,6-9");
  EXPECT_EQ(submit_commands({0, 1, 2, 999, 1000, 2005}, "a b/sweep.sbatch"),
            "sbatch --array=0-2,999 'a b/sweep.sbatch'\n"
            "sbatch --array=0 'a b/sweep.sbatch' 1000\n"
            "sbatch --array=5 'a b/sweep.sbatch' 2000\n");
  EXPECT_EQ(submit_commands({}, "x"), "");
  EXPECT_EQ(shell_quoted("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_quoted(""), "''");
}

TEST(SweepStatus, ThePathOfAScriptIsNoOption) {
  EXPECT_EQ(submit_commands({0}, "--wrap=x/sweep.sbatch"),
            "sbatch --array=0 ./--wrap=x/sweep.sbatch\n");
  EXPECT_EQ(shell_path("-a b"), "'./-a b'");
  EXPECT_EQ(shell_quoted("a\nb"), "'a\nb'");
}

RunState state(RunPhase phase, std::optional<double> loss = {},
               std::optional<double> validation = {}) {
  RunState out;
  out.phase = phase;
  out.loss = loss;
  out.validation_loss = validation;
  return out;
}

TEST(SweepStatus, TheUnfinishedAreRunAgain) {
  EXPECT_EQ(unfinished({state(RunPhase::done), state(RunPhase::waiting),
                        state(RunPhase::running), state(RunPhase::failed),
                        state(RunPhase::stopped)},
                       false),
            (std::vector<std::int64_t>{1, 3, 4}));
  RunState diverged = state(RunPhase::failed);
  diverged.status = Status::diverged;
  EXPECT_TRUE(unfinished({diverged}, false).empty()) << "it would again";
  EXPECT_EQ(unfinished({diverged}, true), (std::vector<std::int64_t>{0}));
}

TEST(SweepStatus, TheBestIsAmongTheDone) {
  EXPECT_EQ(best_point({}), -1);
  EXPECT_EQ(best_point({state(RunPhase::waiting)}), -1);
  EXPECT_EQ(best_point({state(RunPhase::running, 3), state(RunPhase::stopped, 2)}), 1);
  EXPECT_EQ(best_point({state(RunPhase::done, 3), state(RunPhase::stopped, 2),
                        state(RunPhase::done, 2.5)}),
            2);
  EXPECT_EQ(best_point({state(RunPhase::done, 3, 5), state(RunPhase::done, 4, 4)}), 1);
  EXPECT_EQ(best_point({state(RunPhase::done, 3, 5), state(RunPhase::done, 4)}), 0);
}

}  // namespace
}  // namespace trireme::app
