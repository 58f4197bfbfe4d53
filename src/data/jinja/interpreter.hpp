// Interpreter: runs the tree of a template once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data/jinja/tree.hpp"

namespace trireme::data::jinja {

// Names of a block, and of those around it.
struct Scope {
  std::map<std::string, Value, std::less<>> values;
  std::shared_ptr<Scope> around;

  const Value* find(std::string_view name) const;
};

// What a template wrote, and the bytes of it that {% generation %} blocks wrote.
struct Written {
  std::string text;
  std::vector<std::pair<std::size_t, std::size_t>> generated;  // begin, end
};

class Interpreter {
 public:
  explicit Interpreter(const Limits& limits) : budget_(limits) {}
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  // Once. `block` outlives it. Throws Error(bad_content); line() says where.
  Written render(const Block& block, const Dict& globals);
  int line() const { return line_; }

  // What a call of a macro writes.
  Value call_macro(const Statement& macro, const std::shared_ptr<Scope>& around,
                   const Arguments& arguments);
  // A namespace, which is emptied at the end, for it may hold itself.
  Value make_namespace(const Arguments& arguments);

 private:
  enum class Flow : std::uint8_t { next, stop, go_on };

  Flow run(const Block& block);
  Flow run(const Statement& statement);
  Flow run_branch(const Statement& branch);
  Flow run_loop(const Statement& loop);
  void run_assign(const Statement& assign);
  void run_with(const Statement& with);
  void run_generation(const Statement& generation);
  void run_filter(const Statement& filter);
  void run_caller(const Statement& caller);
  Flow run_loop_over(const Statement& loop, const Value& all, int depth);
  // What the block writes, instead of writing it.
  std::string written_by(const Block& block);
  void write(const std::string& text);
  void assign(const std::vector<std::string>& names, const Value& value);
  std::shared_ptr<Scope> enter(std::shared_ptr<Scope> around);

  Value value(const Node* node);  // null: undefined
  Value evaluate(const Node& node);
  List values(const Node& node, std::size_t first);
  Value dictionary(const Node& node);
  Value slice(const Node& node);
  Value call(const Node& node, const Value* caller = nullptr);
  Value comparison(const Node& node);
  Value arithmetic(const Node& node);
  Value negative(const Value& value) const;
  Arguments arguments(const Node& node);

  Budget budget_;
  int line_ = 0;
  std::shared_ptr<Scope> scope_;
  std::vector<std::weak_ptr<Scope>> scopes_;  // that macros hold, which they hold
  std::vector<std::weak_ptr<Object>> namespaces_;
  Written written_;
  std::string* out_ = nullptr;
};

// a + b and so on, and text repeated.
Value calculate(const std::string& mark, const Value& a, const Value& b, Budget& budget);
// Python's value[lower:upper:step]; undefined and none: not given.
Value slice_of(const Value& value, const Value& lower, const Value& upper,
               const Value& step, Budget& budget);

}  // namespace trireme::data::jinja
