// Machine files: what they hold, what is refused, and those that come with the program.
// SPDX-License-Identifier: Apache-2.0
#include "plan/machine.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "io/deck.hpp"

namespace trireme::plan {
namespace {

Machine some_machine() {
  Machine machine;
  machine.name = "a \"quoted\" machine";
  machine.source = "measured";
  machine.ranks_per_node = 4;
  machine.memory_bytes = 16e9;
  machine.products = {.fp32 = 1.5e12, .bf16 = 3e12};
  machine.products.half_inner = 33;
  machine.attention_forward = 0.5;
  machine.attention_backward = 0.25;
  machine.sweep_rate = 20e9;
  machine.narrow_sweep_rate = 10e9;
  machine.update_rate = 15e9;
  machine.attention_half_width = 12;
  machine.kernel_seconds = 2e-6;
  machine.links = {5e9, 1e-6, 1e9, 4e-6, 0.5};
  machine.write_rate = 1e9;
  machine.read_rate = 2e9;
  machine.failure_hours = 50000;
  machine.restart_seconds = 300;
  return machine;
}

// The status and message with which a file is refused.
std::pair<Status, std::string> refusal(const std::string& text) {
  try {
    parse_machine(text, "m.toml");
  } catch (const Error& error) {
    return {error.status(), error.what()};
  }
  return {Status::done, ""};
}

std::string without_line(const std::string& text, const std::string& begin) {
  std::istringstream in(text);
  std::string kept;
  for (std::string line; std::getline(in, line);)
    if (!line.starts_with(begin)) kept += line + "\n";
  return kept;
}

TEST(Machine, IsReadAsItWasWritten) {
  const Machine wanted = some_machine();
  const std::string text = machine_text(wanted);
  const Machine machine = parse_machine(text, "m.toml");
  EXPECT_EQ(machine.name, wanted.name);
  EXPECT_EQ(machine.ranks_per_node, 4);
  // Four digits are written.
  EXPECT_NEAR(machine.product_rate(DType::bf16), 3e12, 3e12 * 5e-4);
  EXPECT_NEAR(machine.kernel_seconds, 2e-6, 2e-6 * 5e-4);
  EXPECT_NEAR(machine.links.network_latency, 4e-6, 4e-6 * 5e-4);
  EXPECT_NEAR(machine.sweep_rate, 20e9, 20e9 * 5e-4);
  EXPECT_NEAR(machine.narrow_sweep_rate, 10e9, 10e9 * 5e-4);
  EXPECT_NEAR(machine.update_rate, 15e9, 15e9 * 5e-4);
  EXPECT_NEAR(machine.attention_half_width, 12, 12 * 5e-4);
  EXPECT_EQ(machine_text(machine), text);
}

TEST(Machine, HasAtMostFortyKeysWithRangesAndUnits) {
  EXPECT_LE(machine_table().size(), 40u);
  for (const io::DeckKey& key : machine_table()) {
    EXPECT_FALSE(key.doc.empty()) << full_name(key);
    if (key.type == io::KeyType::real) {
      EXPECT_LT(key.minimum, key.maximum) << full_name(key);
    }
  }
}

TEST(Machine, SaysWhatIsWrongWithAFile) {
  const std::string good = machine_text(some_machine());
  ASSERT_EQ(refusal(good).first, Status::done) << refusal(good).second;
  const auto missing = refusal(without_line(good, "sweeps"));
  EXPECT_EQ(missing.first, Status::bad_content);
  EXPECT_NE(missing.second.find("memory.sweeps"), std::string::npos) << missing.second;
  const auto unknown = refusal(good + "\n[product]\nfp32 = 1.0\n");
  EXPECT_NE(unknown.second.find("products"), std::string::npos) << unknown.second;
  const auto range = refusal(without_line(good, "overlap") + "[links]\noverlap = 1.5\n");
  EXPECT_EQ(range.first, Status::bad_content);
  const auto type = refusal(without_line(good, "read") + "read = \"fast\"\n");
  EXPECT_EQ(type.first, Status::bad_content);
  EXPECT_THROW(read_machine("/nonexistent/machine.toml"), Error);
}

TEST(Machine, NamesARateThatItLacks) {
  try {
    some_machine().product_rate(DType::f64);
    FAIL() << "there is no rate in fp64";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::resources);
    EXPECT_NE(std::string(error.what()).find("fp64"), std::string::npos) << error.what();
  }
}

TEST(Machine, FilesThatComeWithTheProgramAreGood) {
  int files = 0;
  const std::filesystem::path folder = TRIREME_SOURCE_DIR "/inputs/machines";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    SCOPED_TRACE(entry.path().string());
    const Machine machine = read_machine(entry.path().string());
    EXPECT_GT(machine.product_rate(DType::bf16), 0);
    ++files;
  }
  EXPECT_GE(files, 6);
}

TEST(Machine, PageNamesEveryKey) {
  std::ifstream in(TRIREME_SOURCE_DIR "/docs/machine-files.md");
  const std::string page(std::istreambuf_iterator<char>(in), {});
  for (const io::DeckKey& key : machine_table())
    EXPECT_NE(page.find(format("`{}`", full_name(key))), std::string::npos)
        << full_name(key);
}

}  // namespace
}  // namespace trireme::plan
