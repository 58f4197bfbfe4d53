// Classes, files and the step of a loop stay small, and back ends call their own.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cctype>
#include <set>
#include <string>

#include "style/class_scan.hpp"
#include "style/source_tree.hpp"

namespace trireme::style {
namespace {

// Headers that stand for NVIDIA's have the members that NVIDIA gave them.
bool is_product(const SourceFile& file) {
  if (file.is_under("kernels/cuda_emulation/include")) return false;
  for (const char* folder : {"src", "kernels", "comm", "io"})
    if (file.is_under(folder)) return true;
  return false;
}

TEST(Sizes, ClassesAreSmall) {
  int classes = 0;
  for (const SourceFile* file : code_files()) {
    if (!is_product(*file)) continue;
    for (const ClassSize& one : classes_of(*file)) {
      ++classes;
      EXPECT_LE(one.methods, 40)
          << file->path << ":" << one.line << ": " << one.name << " has too many methods";
      EXPECT_LE(one.data, 25) << file->path << ":" << one.line << ": " << one.name
                              << " has too many data members";
    }
  }
  EXPECT_GT(classes, 300) << "the sources were not found";
}

TEST(Sizes, ProductFilesAreShort) {
  for (const SourceFile* file : code_files()) {
    if (!is_product(*file)) continue;
    EXPECT_LE(file->lines.size(), 400u) << file->path;
  }
}

// The lines of the function whose definition starts with `head`, braces included; 0: it
// is not there.
std::size_t lines_of_function(std::string_view path, std::string_view head) {
  for (const SourceFile* file : code_files()) {
    if (file->path != path) continue;
    for (std::size_t i = 0; i < file->lines.size(); ++i) {
      if (!file->lines[i].starts_with(head)) continue;
      std::size_t end = i;
      while (end < file->lines.size() && file->lines[end] != "}") ++end;
      return end - i + 1;
    }
  }
  return 0;
}

TEST(Sizes, TheLoopAndTheWayInFitOnAGlance) {
  const std::size_t step =
      lines_of_function("src/train/trainer.cpp", "void Trainer::step() {");
  EXPECT_GT(step, 0u) << "Trainer::step was not found";
  EXPECT_LE(step, 20u) << "Trainer::step";
  const std::size_t main = lines_of_function("src/main.cpp", "int main(");
  EXPECT_GT(main, 0u) << "main was not found";
  EXPECT_LE(main, 40u) << "main";
}

// The scanner itself: every form of member that the project writes.
TEST(Sizes, TheScannerCounts) {
  const SourceFile file{"src/a.hpp",
                        {"#define MACRO struct NotOne { \\",
                         "  int a; }",
                         "enum class Colour { red, green };",
                         "template <class T, class U = int>",
                         "class Large final : public Base<T, U>, private Other {",
                         " public:",
                         "  explicit Large(int a) : a_{a}, b_(a), c_(\"{;\") { f(); }",
                         "  Large(const Large&) = delete;",
                         "  bool operator()(int x) const { return a_ < x; }",
                         "  bool operator<(const Large&) const;",
                         "  std::function<void(int)> call;",
                         "  template <class F> auto each(F f) -> int;",
                         "  virtual void g() = 0;  // h();",
                         "  using Map = std::map<int, int>;",
                         "  friend bool operator==(const Large& a, const Large& b) {",
                         "    return a.a_ == b.a_;",
                         "  }",
                         " private:",
                         "  struct Inner {",
                         "    int x = '{', y = 1'000;",
                         "  };",
                         "  static constexpr int limit = 3;",
                         "  int a_ = 0, b_{};",
                         "  std::map<int, std::vector<int>> c_;",
                         "  int (*pointer_)(int) = nullptr;",
                         "  alignas(16) float d_[4] = {1, 2};",
                         "};",
                         "void f(struct stat* s, const class Large& l) { return; }"}};
  const auto all = classes_of(file);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].name, "Large");
  EXPECT_EQ(all[0].line, 5u);
  EXPECT_EQ(all[0].methods, 6);
  EXPECT_EQ(all[0].data, 6);
  EXPECT_EQ(all[1].name, "Inner");
  EXPECT_EQ(all[1].methods, 0);
  EXPECT_EQ(all[1].data, 2);
}

bool in_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// The kernels that have a function of the same name in each back end.
std::set<std::string> front_ends() {
  std::set<std::string> names;
  const std::string mark = "TRIREME_BACK_ENDS(";
  for (const SourceFile* file : code_files()) {
    if (!file->is_under("kernels")) continue;
    for (const std::string& line : file->lines)
      if (line.starts_with(mark))
        names.insert(line.substr(mark.size(), line.find(')') - mark.size()));
  }
  return names;
}

// The names of `names` that `code` calls, or declares, without saying whose they are. All
// kernels take a stream first: that tells them from functions of the same name.
std::vector<std::string> plain_calls(const std::string& code,
                                     const std::set<std::string>& names) {
  std::vector<std::string> calls;
  for (const std::string& name : names) {
    for (auto at = code.find(name); at != std::string::npos;
         at = code.find(name, at + 1)) {
      const char before = at > 0 ? code[at - 1] : ' ';
      if (in_name(before) || before == ':' || before == '.' || before == '>') continue;
      const std::string rest = code.substr(at + name.size());
      for (const char* first : {"(stream", "(Stream&", "(Stream(", "(device", "(host"})
        if (rest.starts_with(first)) calls.push_back(name);
    }
  }
  return calls;
}

// In namespace kernels::cuda or kernels::host, a call of a sibling that is not declared
// yet means the front end in kernels, which calls the back end again, for ever. So a
// plain name stands for a sibling that was declared above; the front end is
// kernels::name.
std::vector<std::string> early_calls(const SourceFile& file,
                                     const std::set<std::string>& names) {
  std::vector<std::string> wrong;
  std::set<std::string> declared;
  for (std::size_t i = 0; i < file.lines.size(); ++i) {
    const std::string code = bare_code(file.lines[i]);
    const bool at_margin = !code.empty() && in_name(code[0]);
    for (const std::string& name : plain_calls(code, names)) {
      if (at_margin) {
        declared.insert(name);
      } else if (declared.count(name) == 0) {
        wrong.push_back(file.path + ":" + std::to_string(i + 1) + ": " + name);
      }
    }
  }
  return wrong;
}

TEST(BackEnds, CallTheirOwnKernelsOrSayWhose) {
  const auto names = front_ends();
  EXPECT_GT(names.size(), 50u) << "the kernels were not found";
  for (const SourceFile* file : code_files()) {
    if (!file->is_under("kernels/cuda") && !file->is_under("kernels/host")) continue;
    for (const std::string& call : early_calls(*file, names))
      ADD_FAILURE() << call << " is called before it is declared here: declare it above, "
                    << "or call kernels::" << call.substr(call.rfind(' ') + 1);
  }
}

TEST(BackEnds, TheRuleSeesAnEarlyCall) {
  const std::set<std::string> names = {"add", "add_bias"};
  SourceFile file{
      "kernels/cuda/elementwise.cu",
      {"void add(Stream& stream) {", "  add_bias(stream, x);", "  x.add(stream);", "}",
       "", "void add_bias(Stream& stream) {", "  kernels::add(stream);", "}"}};
  ASSERT_EQ(early_calls(file, names).size(), 1u);
  EXPECT_EQ(early_calls(file, names)[0], "kernels/cuda/elementwise.cu:2: add_bias");
  file.lines.insert(file.lines.begin(), "void add_bias(Stream& stream);");
  EXPECT_TRUE(early_calls(file, names).empty());
}

}  // namespace
}  // namespace trireme::style
