// Text from elsewhere in Markdown, XML and links.
// SPDX-License-Identifier: Apache-2.0
#include "app/markup.hpp"

#include <gtest/gtest.h>

#include <string>

namespace trireme::app {
namespace {

TEST(Markup, XmlTextOpensNothing) {
  EXPECT_EQ(xml_text("a<b>&\"'"), "a&lt;b&gt;&amp;&quot;&#39;");
  EXPECT_EQ(xml_text("&amp;"), "&amp;amp;");
  EXPECT_EQ(xml_text(std::string_view("a\0b\nc\x1b", 6)), "a?b c?");
  EXPECT_EQ(xml_text("\xef\xbf\xbe \xff"), "\xef\xbf\xbd \xef\xbf\xbd");
  EXPECT_EQ(xml_text("na\xc3\xafve \xe2\x82\xac \xf0\x9f\x9a\xa2"),
            "na\xc3\xafve \xe2\x82\xac \xf0\x9f\x9a\xa2");
}

TEST(Markup, MarkdownTextIsShownAsItIs) {
  EXPECT_EQ(markdown_text("run-7, 3 of 4; node12 / a.b"), "run-7, 3 of 4; node12 / a.b");
  EXPECT_EQ(markdown_text("![x](javascript:f)"), "\\!\\[x\\]\\(javascript\\:f\\)");
  EXPECT_EQ(markdown_text("<img src=x>&#60;"), "&lt;img src\\=x&gt;&amp;\\#60;");
  EXPECT_EQ(markdown_text("a|b\nc"), "a\\|b c") << "a cell and its row stay one";
  EXPECT_EQ(markdown_text("\\|"), "\\\\\\|") << "nor by a backslash of its own";
  EXPECT_EQ(markdown_text("`a` **b** _c_ ~d~ $e$"),
            "\\`a\\` \\*\\*b\\*\\* \\_c\\_ \\~d\\~ \\$e\\$");
  EXPECT_EQ(markdown_text("http://x www.x a@b"), "http\\://x www\\.x a\\@b");
  EXPECT_EQ(markdown_text("\xe2\x80\xae"), "?") << "text that runs backwards";
}

TEST(Markup, PathsAreOneDestination) {
  EXPECT_EQ(markdown_path("report-loss.svg"), "report-loss.svg");
  EXPECT_EQ(markdown_path("a b)>\n<c%20:\xff.svg"), "a%20b%29%3E%0A%3Cc%2520%3A%FF.svg");
}

}  // namespace
}  // namespace trireme::app
