// How many methods and data members each class of a file declares.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "style/source_tree.hpp"

namespace trireme::style {

struct ClassSize {
  std::string name;
  std::size_t line = 0;  // from 1 on
  int methods = 0;       // declared, of every access; constructors and operators count
  int data = 0;          // members of each object; static ones do not count
};

// The classes that `file` defines, nested ones and those of templates too, each with its
// own members alone. It matches braces and knows the forms of C++ that the project
// writes; it is no parser of the language.
std::vector<ClassSize> classes_of(const SourceFile& file);

}  // namespace trireme::style
