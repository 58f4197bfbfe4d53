// Help, completion, man page and schema: made from the commands and the table of keys.
// SPDX-License-Identifier: Apache-2.0
#include "app/help_text.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "app/app.hpp"
#include "app/command_pages.hpp"
#include "config/deck_table.hpp"
#include "io/deck_schema.hpp"
#include "io/files.hpp"

namespace trireme::app {
namespace {

std::string source(const std::string& path) {
  const char* const root = std::getenv("TRIREME_SOURCE");
  return (root ? std::string(root) : std::string(".")) + "/" + path;
}

std::string text_of(const std::string& path) { return io::read_text(path, 1 << 22); }

TEST(HelpText, CommandsAreFoundInTheOverview) {
  const auto commands = commands_of(
      "usage: x --no\n\n  train    DECK [a.b=c]   run\n           --check [--ranks N]\n"
      "  bench    [--steps N]\n\nExit --status 0\n");
  ASSERT_EQ(commands.size(), 2u);
  EXPECT_EQ(commands[0].name, "train");
  EXPECT_EQ(commands[0].options, (std::vector<std::string>{"--check", "--ranks"}));
  EXPECT_EQ(commands[1].options, (std::vector<std::string>{"--steps"}));
}

// The overview against the commands' own lists: rows Option{"--name", ...} in src/app.
TEST(HelpText, OverviewHasEveryOptionAndNoOther) {
  std::set<std::string> shown, parsed;
  for (const auto& command : commands_of(overview()))
    for (const auto& option : command.options) shown.insert(command.name + " " + option);
  const std::regex row(R"re(\{"(--[a-z-]+)", (?:true|false)[,}])re");
  for (const auto& entry : std::filesystem::directory_iterator(source("src/app"))) {
    const std::string name = entry.path().stem().string();
    if (entry.path().extension() != ".cpp") continue;
    const std::string text = text_of(entry.path().string());
    for (auto it = std::sregex_iterator(text.begin(), text.end(), row);
         it != std::sregex_iterator(); ++it)
      parsed.insert(name + " " + (*it)[1].str());
  }
  EXPECT_EQ(shown, parsed) << "src/app/help.cpp shows what the commands' files parse";
}

TEST(HelpText, OverviewHasEveryCommand) {
  std::set<std::string> shown, known;
  for (const auto& command : commands_of(overview())) shown.insert(command.name);
  const std::string text = text_of(source("src/app/app.cpp"));
  const std::regex row(R"re(Command\{"([a-z-]+)")re");
  for (auto it = std::sregex_iterator(text.begin(), text.end(), row);
       it != std::sregex_iterator(); ++it)
    known.insert((*it)[1].str());
  for (const char* other_name : {"--help", "-h", "--version", "-V"})
    known.erase(other_name);
  EXPECT_EQ(shown, known);
}

// Every command has a page with its options and no other.
TEST(HelpText, PagesHaveEveryOptionAndNoOther) {
  const std::regex option(R"re(--[a-z][a-z-]*)re");
  for (const auto& command : commands_of(overview())) {
    const CommandPage* const page = page_of(command.name);
    ASSERT_NE(page, nullptr) << command.name;
    // What stands between srun and the program is the launcher's.
    const std::string text = std::regex_replace(
        std::string(page->text), std::regex(R"re(srun [^\n]* trireme )re"), "trireme ");
    EXPECT_TRUE(text.starts_with("usage: trireme " + command.name)) << text;
    const std::set<std::string> expected(command.options.begin(), command.options.end());
    std::set<std::string> named, explained;
    for (auto it = std::sregex_iterator(text.begin(), text.end(), option);
         it != std::sregex_iterator(); ++it)
      named.insert(it->str());
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(line.size(), 100u) << line;
      if (line.starts_with("  --"))
        explained.insert(line.substr(2, line.find(' ', 2) - 2));
    }
    EXPECT_EQ(named, expected) << command.name;
    EXPECT_EQ(explained, expected) << command.name;
  }
}

std::string help_on(const std::string& topic) { return text_of_help(Arguments({topic})); }

TEST(HelpText, ExplainsASectionOrAKey) {
  const std::string key = help_on("optimizer.weight_decay");
  EXPECT_TRUE(key.starts_with("[optimizer]\n  weight_decay ")) << key;
  EXPECT_EQ(help_on("weight_decay"), key);
  const std::string section = help_on("optimizer");
  EXPECT_NE(section.find("  weight_decay "), std::string::npos);
  EXPECT_NE(section.find("\n[optimizer.schedule]\n"), std::string::npos);
  EXPECT_EQ(section.find("[model]"), std::string::npos);
  EXPECT_TRUE(help_on("train").starts_with("usage: trireme train")) << "a command first";
  EXPECT_TRUE(help_on("include").starts_with("`include = \"FILE\"`"));
  EXPECT_TRUE(help_on("deck").starts_with(help_on("include") + "\n[run]\n"));
  for (const auto& [topic, meant] :
       {std::pair{"lr", "optimizer.learning_rate"}, std::pair{"evel", "evaluate"},
        std::pair{"learnig_rate", "optimizer.learning_rate"},
        std::pair{"optimizr", "optimizer"},
        std::pair{"optimizer.beta", "optimizer.betas"},
        std::pair{"optimizer.adam.beta", "optimizer.betas"}}) {
    try {
      help_on(topic);
      FAIL() << topic;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(format("did you mean '{}'?", meant)),
                std::string::npos)
          << error.what();
    }
  }
}

TEST(HelpText, NearestCommandKnowsSlipsAndOtherProgramsNames) {
  EXPECT_EQ(nearest_command("trian"), "train");
  EXPECT_EQ(nearest_command("evaluat"), "evaluate");
  EXPECT_EQ(nearest_command("export"), "convert");
  EXPECT_EQ(nearest_command("infernce"), "generate");
  EXPECT_EQ(nearest_command("/etc/passwd"), "");
  EXPECT_EQ(nearest_command("x"), "");
}

TEST(HelpText, CompletionHasCommandsOptionsAndKeys) {
  const std::string text = bash_completion(overview(), config::deck_table());
  EXPECT_NE(text.find("\n    sweep) options=\"--grid --list --directory"),
            std::string::npos);
  for (const auto& key : config::deck_table())
    EXPECT_NE(text.find("\n  " + std::string(key.section) + "." + std::string(key.name) +
                        "=\n"),
              std::string::npos);
}

TEST(HelpText, ManPageIsSafeRoff) {
  const std::string text =
      man_page("  train    x\n.SH evil\n'x \\n\n", config::deck_table(), "1.2");
  EXPECT_TRUE(text.starts_with(".TH TRIREME 1 \"\" \"trireme 1.2\""));
  EXPECT_NE(text.find("\n\\&.SH evil\n\\&'x \\en\n"), std::string::npos) << text;
  for (const auto& key : config::deck_table())
    EXPECT_NE(text.find(std::string(key.name)), std::string::npos);
}

TEST(DeckSchema, HasEveryKey) {
  const std::string text = io::deck_schema(config::deck_table());
  for (const auto& key : config::deck_table()) {
    EXPECT_NE(text.find("\"" + std::string(key.name) + "\": {"), std::string::npos)
        << key.name;
    std::string doc(key.doc);
    if (doc.find('"') != std::string::npos) continue;
    EXPECT_NE(text.find("\"description\": \"" + doc), std::string::npos) << key.name;
  }
  EXPECT_EQ(std::count(text.begin(), text.end(), '{'),
            std::count(text.begin(), text.end(), '}'));
}

// A deck that starts from a model leaves the shape to it: editors mark nothing.
TEST(DeckSchema, AModelIsFromElsewhereOrHasItsShape) {
  std::string text = io::deck_schema(config::deck_table());
  std::erase_if(text, [](char c) { return c == ' ' || c == '\n'; });
  EXPECT_NE(
      text.find(R"("anyOf":[{"required":["from"]},{"required":["layers","hidden",)"),
      std::string::npos);
}

TEST(DeckSchema, SaysTypesRangesAndWhatIsRequired) {
  const io::DeckKey table[] = {
      {"a.b", "n", io::KeyType::integer, "steps", "3", 0, 9, "", "A number."},
      {"a.b", "x", io::KeyType::real, "", "", 0, 1e300, "", "A rate.", true},
      {"a", "t", io::KeyType::text, "", "\"p\"", 0, 0, "p|q", "A word."},
      {"a", "s", io::KeyType::bytes, "", "1", 0, 9, "", "A size."},
      {"a", "l", io::KeyType::integers, "", "[1, 2]", 0, 9, "", "A list."}};
  std::string text = io::deck_schema(table);
  text.erase(std::remove_if(text.begin(), text.end(),
                            [](char c) { return c == ' ' || c == '\n'; }),
             text.end());
  const auto has = [&](const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  };
  has(R"("n":{"type":"integer","minimum":0,"maximum":9,)");
  has(R"("description":"Anumber.Unit:steps.","default":3})");
  has(R"("x":{"type":"number","exclusiveMinimum":0,"maximum":1e+300,)");
  // Without other decks all is required that has no default.
  has(R"("anyOf":[{"required":["include"]},{"required":["a"],"properties":{"a":)"
      R"({"required":["b"],"properties":{"b":{"required":["x"]}}}}}]})");
  has(R"("t":{"type":"string","enum":["p","q"],)");
  has(R"("s":{"anyOf":[{"type":"integer","minimum":0,"maximum":9},{"type":"string"}],)");
  has(R"("l":{"type":"array","items":{"type":"integer","minimum":0,"maximum":9},)");
  has(R"("default":[1,2])");
}

}  // namespace
}  // namespace trireme::app
