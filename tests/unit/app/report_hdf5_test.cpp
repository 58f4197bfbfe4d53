// Metrics of runs as an HDF5 file: what it holds, and what it does not replace.
// SPDX-License-Identifier: Apache-2.0
#include "app/report_hdf5.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "base/error.hpp"
#include "io/hdf5_file.hpp"

namespace trireme::app {
namespace {

class ReportHdf5 : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ / name; }
  std::string refusal(const std::string& name) const {
    try {
      check_metrics_file(path(name));
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::cannot_create);
      return error.what();
    }
    return "";
  }

  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() /
      ("trireme_report_hdf5_test_" + std::to_string(::getpid()));
};

ReportedRun some_run() {
  ReportedRun run;
  run.name = "one";
  run.directory = "runs/one";
  run.metrics.series["loss"] = {{1, 3.5}, {2, 3.25}, {4, 3.0}};
  run.metrics.series["validation_loss"] = {{2, 3.75}};
  run.metrics.series["memory.weights"] = {{1, 1024}, {2, 1024}, {4, 1024}};
  run.settings =
      io::deck_settings("[optimizer]\nlearning_rate = 0.5\nname = \"adamw\"\n");
  return run;
}

std::vector<double> column(const io::Hdf5File& file, const std::string& name) {
  const auto [dtype, shape] = file.describe(name);
  EXPECT_EQ(dtype, DType::f64) << name;
  std::vector<double> values(static_cast<std::size_t>(shape[0]));
  file.read_all(name, TensorView(values.data(), DType::f64, shape));
  return values;
}

TEST_F(ReportHdf5, ARowForEachStep) {
  write_metrics_file({some_run()}, path("metrics.h5"));
  const io::Hdf5File file(path("metrics.h5"), io::Hdf5File::Mode::read);
  std::vector<std::int64_t> steps(3);
  EXPECT_EQ(file.describe("one/step"), std::pair(DType::i64, Shape({3})));
  file.read_all("one/step", TensorView(steps.data(), DType::i64, {3}));
  EXPECT_EQ(steps, (std::vector<std::int64_t>{1, 2, 4}));
  EXPECT_EQ(column(file, "one/loss"), (std::vector<double>{3.5, 3.25, 3.0}));
  EXPECT_EQ(column(file, "one/memory.weights")[2], 1024);
  const std::vector<double> validation = column(file, "one/validation_loss");
  EXPECT_TRUE(std::isnan(validation[0]));
  EXPECT_EQ(validation[1], 3.75);
  EXPECT_TRUE(std::isnan(validation[2]));
  EXPECT_EQ(file.text_attribute("one", "directory"), "runs/one");
  EXPECT_EQ(file.text_attribute("one", "optimizer.name"), "adamw");
  EXPECT_EQ(file.text_attribute("one", "optimizer.learning_rate"), "0.5");
}

TEST_F(ReportHdf5, RunsOfOneNameAndRunsWithoutSteps) {
  ReportedRun empty;
  empty.name = "one";
  empty.directory = "other/one";
  write_metrics_file({some_run(), empty}, path("metrics.h5"));
  const io::Hdf5File file(path("metrics.h5"), io::Hdf5File::Mode::read);
  EXPECT_EQ(file.describe("one-2/step").second, Shape({0}));
  EXPECT_EQ(file.text_attribute("one-2", "directory"), "other/one");
  EXPECT_TRUE(file.has("one/loss"));
}

TEST_F(ReportHdf5, OnlyItsOwnFilesAreReplaced) {
  EXPECT_EQ(refusal("metrics.h5"), "");
  write_metrics_file({some_run()}, path("metrics.h5"));
  EXPECT_EQ(refusal("metrics.h5"), "");
  write_metrics_file({some_run(), some_run()}, path("metrics.h5"));
  EXPECT_TRUE(
      io::Hdf5File(path("metrics.h5"), io::Hdf5File::Mode::read).has("one-2/loss"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1)
      << "nothing unfinished is left";

  std::vector<std::int32_t> tokens = {1, 2, 3};
  io::Hdf5File other(path("tokens.h5"), io::Hdf5File::Mode::create);
  other.write("tokens", TensorView(tokens.data(), DType::i32, {3}));
  other.close();
  EXPECT_NE(refusal("tokens.h5").find("is an HDF5 file of something else"),
            std::string::npos);
  std::ofstream(path("text.h5")) << "words";
  EXPECT_NE(refusal("text.h5"), "");
}

}  // namespace
}  // namespace trireme::app
