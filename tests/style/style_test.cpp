// The layer table holds, and every file keeps the project's written form.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cctype>
#include <string>
#include <utility>
#include <vector>

#include "style/layers.hpp"
#include "style/source_tree.hpp"

namespace trireme::style {
namespace {

const Layer* layer_of(const SourceFile& file) {
  for (const Layer& layer : layers) {
    if (file.is_under(layer.folder)) return &layer;
  }
  return nullptr;
}

const Layer* layer_named(std::string_view name) {
  for (const Layer& layer : layers) {
    if (layer.name == name) return &layer;
  }
  return nullptr;
}

// What an #include names, or "". `quoted` tells "..." from <...>.
std::string included(const std::string& line, bool& quoted) {
  const auto at = line.find_first_not_of(" \t");
  if (at == std::string::npos || line.compare(at, 8, "#include") != 0) return "";
  const auto open = line.find_first_of("\"<", at);
  if (open == std::string::npos) return "";
  quoted = line[open] == '"';
  const auto close = line.find(quoted ? '"' : '>', open + 1);
  return line.substr(open + 1, close - open - 1);
}

std::string place(const SourceFile& file, std::size_t line) {
  return file.path + ":" + std::to_string(line + 1) + ": ";
}

bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// Whether `word` stands in `code` as WordOwner says.
bool has_word(const std::string& code, std::string_view word) {
  for (auto at = code.find(word); at != std::string::npos; at = code.find(word, at + 1)) {
    if (at > 0 && is_name(code[at - 1])) continue;
    const char next = at + word.size() < code.size() ? code[at + word.size()] : ' ';
    if (word.ends_with('(') || word.ends_with('_') || !is_name(next)) return true;
  }
  return false;
}

// "" if `file`, of `layer`, may include `header`, else why not.
std::string broken_layer(const SourceFile& file, const Layer& layer,
                         const std::string& header, bool quoted) {
  const std::string top = header.substr(0, header.find('/'));
  const Layer* target = layer_named(top);
  if (quoted && target == nullptr) {
    return "\"" + header + "\" does not start with a module's name";
  }
  if (quoted && top != layer.name && !contains_word(layer.may_include, top)) {
    return std::string(layer.name) + " may not include " + top + " (" + header + ")";
  }
  if (quoted) return "";
  for (const HeaderOwner& owner : header_owners) {
    const bool owned = contains_word(owner.owners, layer.name) ||
                       (owner.prefix == "cuda" && file.is_under("comm/nccl"));
    if (header.starts_with(owner.prefix) && !owned) {
      return "<" + header + "> belongs to " + std::string(owner.owners);
    }
  }
  return "";
}

TEST(Layers, IncludesObeyTheTable) {
  int checked = 0;
  for (const SourceFile* file : code_files()) {
    const Layer* layer = layer_of(*file);
    if (layer == nullptr) continue;
    for (std::size_t i = 0; i < file->lines.size(); ++i) {
      bool quoted = false;
      const std::string header = included(file->lines[i], quoted);
      if (header.empty()) continue;
      ++checked;
      const std::string why = broken_layer(*file, *layer, header, quoted);
      EXPECT_EQ(why, "") << place(*file, i);
    }
  }
  EXPECT_GT(checked, 100) << "the sources were not found";
}

TEST(Layers, WordsStayWithTheirOwners) {
  for (const SourceFile* file : code_files()) {
    const Layer* layer = layer_of(*file);
    if (layer == nullptr && !file->path.starts_with("src/")) continue;
    const std::string_view name = layer == nullptr ? "main" : layer->name;
    for (std::size_t i = 0; i < file->lines.size(); ++i) {
      const std::string code = bare_code(file->lines[i]);
      for (const WordOwner& owner : word_owners) {
        EXPECT_FALSE(has_word(code, owner.word) && !contains_word(owner.owners, name))
            << place(*file, i) << owner.word << " belongs to '" << owner.owners << "'";
      }
    }
  }
}

// A module asks its region for its part of something; which rank it is on, and of how
// many, is known to `parallel` alone.
bool asks_for_ranks(const std::string& code) {
  for (const char* owner :
       {"region", "regions", "dispatch", "sequence_sum", "group", "mesh"})
    for (const char* mark : {".", "_.", "->", "_->", "()."})
      for (const char* word : {"rank(", "size("})
        if (has_word(code, std::string(owner) + mark + word)) return true;
  return false;
}

TEST(Layers, ModulesKnowNoRanks) {
  for (const SourceFile* file : code_files()) {
    if (!file->is_under("src/nn") && !file->is_under("src/model")) continue;
    for (std::size_t i = 0; i < file->lines.size(); ++i)
      EXPECT_FALSE(asks_for_ranks(bare_code(file->lines[i]))) << place(*file, i);
  }
}

// The checks themselves can fail: each is given a line that breaks its rule.
TEST(Layers, ChecksSeeWhatTheyAreFor) {
  const SourceFile norm{"src/nn/norm.cpp", {}};
  const Layer& nn = *layer_of(norm);
  EXPECT_NE(broken_layer(norm, nn, "comm/group.hpp", true), "");
  EXPECT_NE(broken_layer(norm, nn, "norm.hpp", true), "");
  EXPECT_NE(broken_layer(norm, nn, "mpi.h", false), "");
  EXPECT_NE(broken_layer(norm, nn, "Kokkos_Core.hpp", false), "");
  EXPECT_EQ(broken_layer(norm, nn, "kernels/norm.hpp", true), "");
  EXPECT_EQ(broken_layer(norm, nn, "vector", false), "");
  EXPECT_TRUE(has_word("  MPI_Abort(comm, 1);", "MPI_"));
  EXPECT_TRUE(has_word("std::exit(1);", "exit("));
  EXPECT_FALSE(has_word("on_exit(1);", "exit("));
  EXPECT_TRUE(asks_for_ranks("if (region_.size() > 1) return;"));
  EXPECT_TRUE(asks_for_ranks("  f(axes.dispatch->rank());"));
  EXPECT_TRUE(asks_for_ranks("f(axes_.sequence_sum.size());"));
  EXPECT_FALSE(asks_for_ranks("f(layers_.size(), whole.rank(), shape.rank());"));
  EXPECT_EQ(bare_code("f(\"exit(1)\");  // exit(1)"), "f(\"\");  ");
}

constexpr std::string_view licence = "SPDX-License-Identifier: Apache-2.0";

// "" if `file` begins as every file does, else what is wrong. The first line is one
// sentence on one line, the second the licence alone; a script has its #! before them.
std::string broken_beginning(const SourceFile& file) {
  const bool code = file.has_extension(".hpp .cpp .cu .cuh .h .c");
  const bool cmake = file.has_extension(".cmake .txt");
  const std::string mark = code ? "// " : "# ";
  const bool script = !file.lines.empty() && file.lines[0].starts_with("#!");
  const std::size_t first = script ? 1 : 0;
  if (file.lines.size() < first + 2) return "is too short";
  const std::string& sentence = file.lines[first];
  if (!sentence.starts_with(mark) || !sentence.ends_with('.'))
    return "does not start with a sentence that says what it is for";
  if (sentence.size() > (cmake ? 100u : 90u)) return "has a first line that is too long";
  if (file.lines[first + 1] != mark + std::string(licence))
    return "has no SPDX line alone below its first line";
  for (std::size_t i = first + 2; i < file.lines.size(); ++i) {
    const std::string& line = file.lines[i];
    if (line.find(licence) != line.npos && line.find('"') == line.npos)
      return "has the SPDX line again in line " + std::to_string(i + 1);
  }
  return "";
}

TEST(Files, SayWhatTheyAreAndTheirLicence) {
  int checked = 0;
  for (const SourceFile& file : source_files()) {
    const bool list =
        file.has_extension(".txt") && !file.path.ends_with("CMakeLists.txt");
    if (file.has_extension(".md .json .in") || list) continue;  // pages and data
    EXPECT_EQ(broken_beginning(file), "") << file.path;
    ++checked;
  }
  EXPECT_GT(checked, 900) << "the sources were not found";
}

TEST(Files, BeginningsThatAreWrongAreSeen) {
  const std::string line = "// " + std::string(licence);
  const auto broken = [](std::vector<std::string> lines, const char* path = "src/a.cpp") {
    return broken_beginning({path, std::move(lines)}) != "";
  };
  EXPECT_FALSE(broken({"// Does it.", line, "#include <vector>"}));
  EXPECT_FALSE(broken({"#!/bin/sh", "# Does it.", "# " + std::string(licence)}, "a.sh"));
  EXPECT_TRUE(broken({"// Does it", "// and that.", line}));
  EXPECT_TRUE(broken({"// Does it and", "// that. " + std::string(licence)}));
  EXPECT_TRUE(broken({"// Does it", line}));
  EXPECT_TRUE(broken({"// Does it.", "// So.", line}));
  EXPECT_TRUE(broken({"// Does it.", "#include <vector>"}));
  EXPECT_TRUE(broken({"// Does it.", line, line}));
  EXPECT_TRUE(broken({"// " + std::string(90, 'a') + ".", line}));
  EXPECT_TRUE(broken({"# Does it.", line}, "a.sh"));
}

TEST(Files, AreShort) {
  for (const SourceFile* file : code_files()) {
    EXPECT_LE(file->lines.size(), 600u) << file->path;
    if (file->path == "src/main.cpp") {
      EXPECT_LE(file->lines.size(), 40u);
    }
  }
}

// A definition starts at the left margin and ends at the next '}' there.
TEST(Files, FunctionsAreShort) {
  for (const SourceFile* file : code_files()) {
    if (layer_of(*file) == nullptr) continue;
    std::size_t start = 0;
    for (std::size_t i = 0; i < file->lines.size(); ++i) {
      const std::string& line = file->lines[i];
      if (line == "}") {
        EXPECT_LE(i - start + 1, 60u) << place(*file, start) << line;
      } else if (!line.empty() && is_name(line[0])) {
        start = i;
      }
    }
  }
}

TEST(Files, NameNoMachineAndLeaveNothingUndone) {
  // Split, so that this file does not contain what it looks for.
  const std::string unwanted[] = {
      "/ho"
      "me/",
      "/wo"
      "rk/",
      "/ro"
      "ot/",
      "TO"
      "DO",
      "FIX"
      "ME",
      "XX"
      "X "};
  for (const SourceFile& file : source_files()) {
    for (std::size_t i = 0; i < file.lines.size(); ++i) {
      for (const std::string& word : unwanted) {
        EXPECT_EQ(file.lines[i].find(word), std::string::npos) << place(file, i) << word;
      }
    }
  }
}

TEST(Files, HaveNoTabsNorBlanksAtTheEndOfALine) {
  for (const SourceFile& file : source_files()) {
    if (file.has_extension(".md .txt .json") && file.is_under("tests")) continue;  // data
    for (std::size_t i = 0; i < file.lines.size(); ++i) {
      const std::string& line = file.lines[i];
      EXPECT_EQ(line.find('\t'), std::string::npos) << place(file, i) << "tab";
      EXPECT_FALSE(line.ends_with(' ') || line.ends_with('\r'))
          << place(file, i) << "blank at the end";
    }
  }
}

TEST(Files, HeadersAreGuarded) {
  for (const SourceFile* file : code_files()) {
    if (!file->has_extension(".hpp .cuh")) continue;
    bool guarded = false;
    for (const std::string& line : file->lines) guarded |= line == "#pragma once";
    EXPECT_TRUE(guarded) << file->path << " has no #pragma once";
  }
}

}  // namespace
}  // namespace trireme::style
