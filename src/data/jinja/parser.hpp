// ExpressionParser: the expressions of a template; StatementParser: its statements.
// SPDX-License-Identifier: Apache-2.0
// The grammar and its precedences are Jinja's (jinja2/parser.py).
#pragma once

#include <string>
#include <vector>

#include "data/jinja/lexer.hpp"
#include "data/jinja/tree.hpp"

namespace trireme::data::jinja {

class ExpressionParser {
 public:
  explicit ExpressionParser(std::vector<Word> words) : words_(std::move(words)) {}

  // `conditional`: a if b else c is part of it.
  NodePtr expression(bool conditional = true);
  // One, or several with commas between them as a tuple.
  NodePtr expressions(bool conditional = true);
  // Filters behind what is there: a | b(c) | d. `named`: the first stands without "|".
  NodePtr filters(NodePtr node, bool named = false);

 protected:
  const Word& word() const { return words_[at_]; }
  const Word& next_word() const {
    return words_[at_ + 1 < words_.size() ? at_ + 1 : at_];
  }
  Word take();
  std::size_t place() const { return at_; }
  // Whether a name stands between that place and here.
  bool names_since(std::size_t place, std::string_view name) const;
  bool at_mark(std::string_view mark) const;
  bool at_name(std::string_view name) const;
  bool skip_mark(std::string_view mark);
  bool skip_name(std::string_view name);
  void expect_mark(std::string_view mark);
  void expect(WordKind kind, const char* what);
  std::string take_name();
  [[noreturn]] void refuse(const std::string& what) const;
  NodePtr make(Op op, std::string text = "") const;
  // Counts the depth of what was put together; deep trees would overflow the stack.
  NodePtr done(NodePtr node) const;

 private:
  using Rule = NodePtr (ExpressionParser::*)();
  NodePtr or_expression();
  NodePtr and_expression();
  NodePtr negation();
  NodePtr comparison();
  NodePtr sum();
  NodePtr joined();
  NodePtr product();
  NodePtr power();
  NodePtr unary() { return signed_value(true); }
  NodePtr signed_value(bool with_filters);
  NodePtr primary();
  NodePtr literal();
  NodePtr postfix(NodePtr node);
  NodePtr subscript(NodePtr node);
  NodePtr call(NodePtr callee);
  NodePtr test(NodePtr node);
  NodePtr filters_and_tests(NodePtr node);
  NodePtr chain(Rule operand, std::initializer_list<std::string_view> marks);
  void arguments(Node& node);
  NodePtr bracketed(Op op, std::string_view close);
  NodePtr dictionary();

  std::vector<Word> words_;
  std::size_t at_ = 0;
  int level_ = 0;
};

class StatementParser : public ExpressionParser {
 public:
  using ExpressionParser::ExpressionParser;
  // Statements until one of the names, which stays the current word, or until the end.
  Block block(std::initializer_list<std::string_view> ends);

 private:
  void statement(Block& out);
  Statement branch();
  Statement loop();
  Statement assign();
  Statement macro();
  Statement with();
  Statement generation();
  Statement filter();
  Statement caller();
  // Names with defaults between brackets, as arguments of a macro.
  void parameters(Statement& macro);
  // Behind the name that ends a block.
  void finish(std::string_view name);
  Statement begin(Do kind);
  std::vector<std::string> targets();

  int level_ = 0;  // of statements in statements
  int loops_ = 0;  // around the current statement
};

}  // namespace trireme::data::jinja
