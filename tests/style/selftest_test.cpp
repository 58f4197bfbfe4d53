// Every kernel that the program can call is called by the self-test, too.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <string>

#include "style/source_tree.hpp"

namespace trireme::style {
namespace {

struct Exception {
  std::string_view kernel, reason;
};
constexpr std::string_view hosts_only = "DoRA's kernels run on hosts and throw on a GPU";
constexpr Exception exceptions[] = {
    {"run_kernel", "it is no kernel: it runs one where the stream is"},
    {"add_row_squares", hosts_only},
    {"take_roots", hosts_only},
    {"divide_by_lengths", hosts_only},
    {"scale_columns", hosts_only},
    {"add_column_products", hosts_only},
};

// The name of the kernel that a line of a header declares, or "": a function whose first
// argument is a stream, at the left margin.
std::string declared(const std::string& line) {
  const auto end = line.find("(Stream& stream,");
  if (end == std::string::npos || line[0] == ' ' || line[0] == '/') return "";
  return line.substr(line.rfind(' ', end) + 1, end - line.rfind(' ', end) - 1);
}

// The functions of namespace kernels that a line of code calls.
void add_called(const std::string& line, std::set<std::string>& called) {
  constexpr std::string_view mark = "kernels::";
  const std::string code = bare_code(line);
  for (auto at = code.find(mark); at != std::string::npos; at = code.find(mark, at)) {
    at += mark.size();
    const auto end =
        std::find_if_not(code.begin() + static_cast<std::ptrdiff_t>(at), code.end(),
                         [](unsigned char c) { return std::isalnum(c) || c == '_'; });
    if (end != code.end() && *end == '(')
      called.emplace(code.begin() + static_cast<std::ptrdiff_t>(at), end);
  }
}

// Of headers right in kernels/: those below are no part of its interface.
bool is_public(const SourceFile& file) {
  return file.is_under("kernels") && file.has_extension(".hpp") &&
         file.path.find('/', std::string_view("kernels/").size()) == std::string::npos;
}

TEST(SelfTest, CallsEveryKernel) {
  std::set<std::string> kernels, called, excepted;
  for (const SourceFile* file : code_files())
    for (const std::string& line : file->lines) {
      if (is_public(*file)) kernels.insert(declared(line));
      if (file->is_under("src/selftest")) add_called(line, called);
    }
  kernels.erase("");
  EXPECT_GT(kernels.size(), 100u) << "the headers were not found";
  for (const Exception& one : exceptions) {
    const std::string name(one.kernel);
    EXPECT_TRUE(kernels.contains(name)) << name << " is an exception and no kernel";
    EXPECT_FALSE(called.contains(name)) << name << " is called: " << one.reason;
    excepted.insert(name);
  }
  for (const std::string& kernel : kernels)
    EXPECT_TRUE(called.contains(kernel) || excepted.contains(kernel))
        << kernel << " has no check in src/selftest (docs/selftest.md)";
}

TEST(SelfTest, DeclarationsAndCallsAreSeen) {
  EXPECT_EQ(declared("void add(Stream& stream, const TensorView& a);"), "add");
  EXPECT_EQ(declared("double sum_of_squares(Stream& stream, const TensorView& x);"),
            "sum_of_squares");
  EXPECT_EQ(declared("  friend void hidden(Stream& stream, int steps);"), "");
  EXPECT_EQ(declared("// As add(Stream& stream, a) says."), "");
  std::set<std::string> called;
  add_called("  f(kernels::norm(x), kernels::Update{1}, add(y));  // kernels::drop(z)",
             called);
  EXPECT_EQ(called, std::set<std::string>{"norm"});
}

}  // namespace
}  // namespace trireme::style
