// Decks of models by name: each has the parameters that its first line says.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "config/run_config.hpp"
#include "io/files.hpp"
#include "model/stage.hpp"

namespace trireme::plan {
namespace {

// "# Name: 8,030,261,248 parameters, ..."
std::int64_t parameters_said(const std::string& text) {
  const std::string line = text.substr(0, text.find(" parameters"));
  std::string digits;
  for (const char letter : line.substr(line.rfind(' ') + 1))
    if (letter != ',') digits += letter;
  return std::stoll(digits);
}

TEST(ModelDecks, HaveTheParametersThatTheySay) {
  const char* source = std::getenv("TRIREME_SOURCE");
  ASSERT_NE(source, nullptr);
  int count = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(source) + "/inputs/models")) {
    const std::string path = entry.path().string();
    SCOPED_TRACE(path);
    const config::LoadedRun run = config::load_run(path, {}, 1);
    EXPECT_EQ(model::parameter_count(run.config.model),
              parameters_said(io::read_text_or_pipe(path, 1 << 20)));
    EXPECT_EQ(run.config.run.name, entry.path().stem().string());
    ++count;
  }
  EXPECT_GE(count, 20);
}

}  // namespace
}  // namespace trireme::plan
