// Each file includes what it uses of the standard library, as plain builds need it.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "style/source_tree.hpp"

namespace trireme::style {
namespace {

struct Names {
  std::string_view headers;  // any of them has the names
  std::string_view names;
};

// Headers that the tests' builds precompile (cmake/TriremePrecompiled.cmake).
constexpr Names library[] = {
    {"algorithm",
     "adjacent_find all_of any_of binary_search clamp copy copy_if copy_n count count_if "
     "equal fill fill_n find find_if find_if_not for_each generate is_sorted "
     "lexicographical_compare lower_bound max max_element merge min min_element "
     "minmax_element mismatch none_of nth_element partial_sort partition partition_point "
     "pop_heap push_heap remove_if replace reverse rotate search set_difference sort "
     "stable_sort transform unique upper_bound"},
    {"array", "array to_array"},
    {"atomic", "atomic atomic_flag"},
    {"bit",
     "bit_cast bit_ceil bit_width countl_zero countr_zero endian has_single_bit "
     "popcount rotl"},
    {"charconv", "from_chars from_chars_result to_chars"},
    {"chrono", "chrono"},
    {"cmath",
     "ceil copysign cos erf exp exp2 floor fma fmod frexp hypot isfinite isinf isnan "
     "ldexp llround log log10 log2 lround nearbyint nextafter pow round sin sqrt tanh "
     "trunc"},
    {"condition_variable", "condition_variable"},
    {"cstring", "memchr memcmp memcpy memmove memset strcmp strerror strlen"},
    {"deque", "deque"},
    {"exception",
     "current_exception exception exception_ptr rethrow_exception terminate "
     "uncaught_exceptions"},
    {"filesystem", "filesystem"},
    {"functional", "cref function ref reference_wrapper"},
    {"functional algorithm map set", "greater less"},
    {"initializer_list vector string map set", "initializer_list"},
    {"limits", "numeric_limits"},
    {"map", "map multimap"},
    {"memory", "make_shared make_unique shared_ptr unique_ptr weak_ptr"},
    {"mutex", "call_once lock_guard mutex once_flag scoped_lock unique_lock"},
    {"numeric",
     "accumulate exclusive_scan gcd inner_product iota lcm partial_sum reduce"},
    {"optional", "make_optional nullopt optional"},
    {"set", "multiset set"},
    {"source_location", "source_location"},
    {"span", "as_bytes span"},
    {"sstream", "istringstream ostringstream stringstream"},
    {"string", "getline stoi string to_string"},
    {"string_view", "string_view"},
    {"thread", "jthread this_thread thread"},
    {"tuple", "apply make_tuple tie tuple"},
    {"type_traits",
     "conditional_t decay_t enable_if_t false_type invoke_result_t is_enum_v "
     "is_floating_point_v is_integral_v is_same is_same_v is_trivially_copyable_v "
     "remove_cvref_t true_type underlying_type_t void_t"},
    {"unordered_map", "unordered_map"},
    {"utility",
     "as_const cmp_less declval exchange forward in_place index_sequence "
     "make_index_sequence make_pair pair"},
    {"utility algorithm", "move"},
    {"utility algorithm array vector string memory", "swap"},
    {"variant", "get_if holds_alternative monostate variant visit"},
    {"vector", "vector"},
};

// What a file includes and uses of the standard library.
struct Uses {
  std::set<std::string> standard, ours, names;
};

Uses uses_of(const SourceFile& file) {
  Uses uses;
  for (const std::string& line : file.lines) {
    if (line.starts_with("#include ")) {
      const bool ours = line[9] == '"';
      const auto close = line.find(ours ? '"' : '>', 10);
      (ours ? uses.ours : uses.standard).insert(line.substr(10, close - 10));
      continue;
    }
    const std::string code = bare_code(line);
    for (auto at = code.find("std::"); at != code.npos; at = code.find("std::", at + 5)) {
      auto end = at + 5;
      while (end < code.size() &&
             (std::isalnum(static_cast<unsigned char>(code[end])) || code[end] == '_'))
        ++end;
      uses.names.insert(code.substr(at + 5, end - at - 5));
    }
  }
  return uses;
}

using Tree = std::map<std::string, Uses>;

Tree tree_of(const std::vector<const SourceFile*>& files) {
  Tree tree;
  for (const SourceFile* file : files) tree.emplace(file->path, uses_of(*file));
  return tree;
}

// Headers of the library that `path` includes, itself or by way of the project's headers.
std::set<std::string> standard_headers(const Tree& tree, const std::string& path) {
  std::set<std::string> found, seen;
  std::vector<std::string> left{path};
  while (!left.empty()) {
    const std::string at = std::move(left.back());
    left.pop_back();
    const auto uses = tree.find(at);
    if (uses == tree.end() || !seen.insert(at).second) continue;
    found.insert(uses->second.standard.begin(), uses->second.standard.end());
    const std::string folder = at.substr(0, at.rfind('/') + 1);
    for (const std::string& header : uses->second.ours)
      for (const std::string& root :
           {std::string(), std::string("src/"), std::string("tests/"), folder})
        left.push_back(root + header);
  }
  return found;
}

// "std::NAME needs <HEADER>" for each name of which no header is there.
std::vector<std::string> missing_headers(const Tree& tree, const std::string& path) {
  std::vector<std::string> missing;
  const std::set<std::string> there = standard_headers(tree, path);
  const std::set<std::string>& used = tree.at(path).names;
  for (const Names& row : library) {
    const auto headers = words(row.headers);
    if (std::any_of(headers.begin(), headers.end(), [&](std::string_view header) {
          return there.contains(std::string(header));
        }))
      continue;
    for (const std::string_view name : words(row.names))
      if (used.contains(std::string(name)))
        missing.push_back("std::" + std::string(name) + " needs <" +
                          std::string(headers.front()) + ">");
  }
  return missing;
}

TEST(Includes, NameWhatAFileUses) {
  const Tree tree = tree_of(code_files());
  for (const SourceFile* file : code_files()) {
    if (file->has_extension(".cu .cuh")) continue;  // never precompiled
    for (const std::string& what : missing_headers(tree, file->path))
      ADD_FAILURE() << file->path << ": " << what;
  }
  EXPECT_GT(tree.size(), 900u) << "the sources were not found";
}

TEST(Includes, ThatAreMissingAreSeen) {
  const SourceFile header{"src/base/a.hpp", {"#include <vector>"}};
  const SourceFile user{"src/base/a.cpp",
                        {"#include \"base/a.hpp\"", "std::vector<int> x;",
                         "auto y = std::exchange(x, {});  // std::map", "\"std::set\""}};
  const Tree tree = tree_of({&header, &user});
  EXPECT_EQ(missing_headers(tree, "src/base/a.cpp"),
            std::vector<std::string>{"std::exchange needs <utility>"});
}

}  // namespace
}  // namespace trireme::style
