// Text from elsewhere in pages and pictures: one function for each place it can stand in.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace trireme::app {

// Each takes any bytes and shows them on one line, as one_line() of base/text.hpp does.

// Between the tags of XML (SVG, HTML), or in a quoted attribute.
std::string xml_text(std::string_view text);

// Within a line of Markdown, in a cell of a table too: shown as it is, whatever marks,
// tags, links and entities it looks like.
std::string markdown_text(std::string_view text);

// A path relative to the page as the destination of a link or an image of Markdown.
std::string markdown_path(std::string_view path);

}  // namespace trireme::app
