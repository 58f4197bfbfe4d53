// Tables of text with aligned columns.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace trireme {

using TextRow = std::vector<std::string>;

// One line a row, each starting with `indent` spaces, columns two spaces apart: the first
// `left` are flush left, the others flush right. Ends with a line break unless empty.
std::string text_table(const std::vector<TextRow>& rows, std::size_t left,
                       std::size_t indent);

}  // namespace trireme
