// Decks that include others: which value counts, where it stands, and what is refused.
// SPDX-License-Identifier: Apache-2.0
#include "io/deck_include.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>

#include "base/text.hpp"
#include "io/deck.hpp"

namespace trireme::io {
namespace {

constexpr Key<std::int64_t> steps{
    {"run", "steps", KeyType::integer, "steps", "", 1, 1000, "", "Steps."}};
constexpr Key<std::string> run_name{
    {"run", "name", KeyType::text, "", "\"run\"", 0, 0, "", "Name."}};
constexpr Key<std::int64_t> heads{
    {"model", "heads", KeyType::integer, "", "4", 1, 64, "", "Heads."}};
constexpr Key<std::vector<std::string>> paths{
    {"data", "paths", KeyType::texts, "", "[]", 0, 0, "", "Paths."}};
const std::array<DeckKey, 4> table = {steps, run_name, heads, paths};

class DeckInclude : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(folder_ / "models");
    write("models/base.toml",
          "[run]\nsteps = 5\n[model]\nheads = 8\n[data]\npaths = [\"b\"]\n");
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ / name; }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name)) << text;
  }
  Deck load(const std::string& name,
            const std::vector<std::string>& overrides = {}) const {
    return Deck::load(path(name), overrides, table);
  }
  // What is wrong with a deck, with the folder left out.
  std::string problem(const std::string& text) const {
    write("deck.toml", text);
    try {
      load("deck.toml");
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::bad_content);
      std::string what = error.what();
      const std::string here = folder_.string() + "/";
      for (auto at = what.find(here); at != what.npos; at = what.find(here))
        what.erase(at, here.size());
      return what;
    }
    return "(no error)";
  }

  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() /
      ("trireme_deck_include_test_" + std::to_string(::getpid()));
};

TEST_F(DeckInclude, OfSeveralValuesTheLastCounts) {
  write("other.toml", "[model]\nheads = 16\n[run]\nname = \"other\"\n");
  write("deck.toml",
        "include = [\"models/base.toml\", \"other.toml\"]\n[run]\nname = \"own\"\n");
  const Deck deck = load("deck.toml");
  EXPECT_EQ(deck[steps], 5);
  EXPECT_EQ(deck[heads], 16);
  EXPECT_EQ(deck[run_name], "own");
  EXPECT_EQ(deck[paths], std::vector<std::string>{"b"});
  EXPECT_EQ(deck.where(steps), path("models/base.toml") + ":2:9");
  EXPECT_EQ(deck.where(heads), path("other.toml") + ":2:9");
  EXPECT_TRUE(deck.given(steps));
  EXPECT_EQ(load("deck.toml", {"model.heads=2"})[heads], 2);
  // The order of the list is that of the values.
  write("deck.toml", "include = [\"other.toml\", \"models/base.toml\"]\n");
  EXPECT_EQ(load("deck.toml")[heads], 8);
}

TEST_F(DeckInclude, NamesAreRelativeToTheDeckThatHasThem) {
  write("models/large.toml", "include = \"base.toml\"\nmodel.heads = 32\n");
  write("deck.toml", "include = \"models/large.toml\"\n");
  EXPECT_EQ(load("deck.toml")[heads], 32);
  EXPECT_EQ(load("deck.toml")[steps], 5);
  write("models/up.toml", "include = \"../deck.toml\"\n");
  EXPECT_EQ(load("models/up.toml")[heads], 32);
  write("absolute.toml", "include = \"" + path("models/base.toml") + "\"\n");
  EXPECT_EQ(load("absolute.toml")[heads], 8);
  // One deck may come by two ways.
  write("deck.toml", "include = [\"models/large.toml\", \"models/base.toml\"]\n");
  EXPECT_EQ(load("deck.toml")[heads], 8);
}

TEST_F(DeckInclude, WhatIsWrongStandsInItsOwnFile) {
  write("wrong.toml", "[model]\nhead = 8\nheads = 0\n");
  write("broken.toml", "[model\n");
  EXPECT_EQ(problem("include = \"wrong.toml\"\n[run]\nsteps = 0\n"),
            "wrong.toml:2:1: model.head: unknown key; did you mean 'model.heads'?\n"
            "wrong.toml:3:9: model.heads = 0: must be between 1 and 64\n"
            "deck.toml:3:9: run.steps = 0: must be between 1 and 1000");
  EXPECT_TRUE(problem("include = \"broken.toml\"\n").starts_with("broken.toml:1:7: not"))
      << problem("include = \"broken.toml\"\n");
  // A value that is replaced need not be right.
  EXPECT_EQ(problem("include = \"models/base.toml\"\n[model]\nheads = 4\n"),
            "(no error)");
}

TEST_F(DeckInclude, OneThatCannotBeReadIsNamedWhereItIsIncluded) {
  EXPECT_EQ(problem("include = \"models/bas.toml\"\nrun.steps = 1\n"),
            "deck.toml:1:11: include = \"models/bas.toml\": models/bas.toml: there is no "
            "such deck; did you mean models/base.toml?");
  EXPECT_EQ(problem("include = [\"models/base.toml\", \"models\"]\n"),
            "deck.toml:1:32: include = \"models\": models: is a directory, not a deck");
  EXPECT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_NE(problem("include = \"pipe\"\n").find("is not a regular file"),
            std::string::npos);
  for (const char* value : {"3", "true", "\"\"", "[\"models/base.toml\", 3]", "{a = 1}"})
    EXPECT_NE(problem(format("include = {}\n", value)).find("write the name of a deck"),
              std::string::npos)
        << value;
  EXPECT_EQ(problem("run.steps = 1\n[model]\ninclude = \"models/base.toml\"\n"),
            "deck.toml:3:1: model.include: is no key: a line of a deck's file, above its "
            "first section, names the decks that it includes, as include = "
            "\"models/base.toml\"");
}

TEST_F(DeckInclude, CirclesDepthAndSizeEnd) {
  EXPECT_NE(problem("include = \"./models/../deck.toml\"\n").find("include itself"),
            std::string::npos);
  write("models/a.toml", "include = \"b.toml\"\n");
  write("models/b.toml", "include = \"a.toml\"\n");
  EXPECT_EQ(problem("include = \"models/a.toml\"\n"),
            "models/b.toml:1:11: include = \"a.toml\": the deck would include itself: "
            "remove one of the lines that lead from models/a.toml to models/b.toml");
  for (int i = 0; i < 10; ++i)
    write("deep" + std::to_string(i) + ".toml",
          format("include = \"deep{}.toml\"\n", i + 1));
  write("deep10.toml", "run.steps = 1\n");
  EXPECT_EQ(problem("include = \"deep3.toml\"\n"), "(no error)");
  EXPECT_NE(problem("include = \"deep2.toml\"\n").find("8 deep at the most"),
            std::string::npos);
  // Twice as many files at each level end at some number of bytes.
  for (int i = 0; i < 7; ++i)
    write("wide" + std::to_string(i) + ".toml",
          format("include = [{}]\n#",
                 joined(std::vector<std::string>(12, format("\"wide{}.toml\"", i + 1)),
                        ", ")) +
              std::string(100000, ' ') + "\n");
  write("wide7.toml", std::string(100000, '#') + "\n");
  EXPECT_NE(problem("include = \"wide0.toml\"\n").find("more than 2097152 bytes"),
            std::string::npos);
}

// A checkpoint brings its deck: it may not have files of this machine read.
TEST_F(DeckInclude, OnlyFilesMayInclude) {
  const std::string text = "include = \"" + path("models/base.toml") + "\"\n";
  EXPECT_THROW(Deck::parse(text, path("deck.toml"), {}, table), Error);
  EXPECT_THROW(load("models/base.toml", {"include=deck.toml"}), Error);
}

TEST_F(DeckInclude, SeveralFilesAreOneText) {
  const std::string own = "# as it is\nrun.steps = 7\n";
  write("deck.toml", own);
  EXPECT_EQ(self_contained_deck(path("deck.toml"), table), own);
  write("deck.toml", "include = \"models/base.toml\"\nmodel.heads = 2\n");
  EXPECT_EQ(self_contained_deck(path("deck.toml"), table),
            "[run]\nsteps = 5\n\n[model]\nheads = 2\n\n[data]\npaths = [\"b\"]\n");
  // What must be given may be given by an override.
  write("open.toml", "model.heads = 3\n");
  write("deck.toml", "include = \"open.toml\"\n");
  EXPECT_EQ(self_contained_deck(path("deck.toml"), table), "[model]\nheads = 3\n");
}

}  // namespace
}  // namespace trireme::io
