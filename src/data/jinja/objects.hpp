// Objects of templates: namespaces, loops, macros and functions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "data/jinja/filters.hpp"
#include "data/jinja/interpreter.hpp"

namespace trireme::data::jinja {

class NamespaceObject final : public Object {
 public:
  explicit NamespaceObject(Dict values) : values_(std::move(values)) {}
  Value attribute(const std::string& name) const override {
    for (const auto& entry : values_)
      if (entry.first == name) return entry.second;
    return Value::undefined(name);
  }
  Value* settable(const std::string& name) override {
    for (auto& entry : values_)
      if (entry.first == name) return &entry.second;
    return &values_.emplace_back(name, Value()).second;
  }
  Value call(Budget&, const Arguments&) override { refuse("a namespace is called"); }
  void clear() { values_.clear(); }

 private:
  Dict values_;
};

// `loop` in the body of a loop.
class LoopObject final : public Object {
 public:
  // `deeper` is what it calls, if it is recursive.
  LoopObject(List items, std::int64_t depth, Function deeper)
      : items_(std::move(items)), depth_(depth), deeper_(std::move(deeper)) {}
  const List& items() const { return items_; }
  void go_to(std::size_t index) { index_ = index; }

  Value attribute(const std::string& name) const override {
    const auto index = static_cast<std::int64_t>(index_);
    const std::int64_t left = std::ssize(items_) - index;
    if (name == "index") return Value::of(index + 1);
    if (name == "index0") return Value::of(index);
    if (name == "revindex") return Value::of(left);
    if (name == "revindex0") return Value::of(left - 1);
    if (name == "first") return Value::of(index == 0);
    if (name == "last") return Value::of(left == 1);
    if (name == "length") return Value::of(std::int64_t{std::ssize(items_)});
    if (name == "depth") return Value::of(depth_);
    if (name == "depth0") return Value::of(depth_ - 1);
    if (name == "previtem")
      return index_ > 0 ? items_[index_ - 1] : Value::undefined("loop.previtem");
    if (name == "nextitem")
      return left > 1 ? items_[index_ + 1] : Value::undefined("loop.nextitem");
    if (name == "cycle")
      return function_of([index](Budget&, const Arguments& arguments) {
        const List& all = arguments.positional;
        if (all.empty()) refuse("loop.cycle needs values");
        return all[static_cast<std::size_t>(index) % all.size()];
      });
    return Value::undefined("loop." + name);
  }
  bool callable() const override { return true; }
  Value call(Budget& budget, const Arguments& arguments) override {
    if (!deeper_) refuse("a loop is called that is not recursive");
    return deeper_(budget, arguments);
  }

 private:
  List items_;
  std::int64_t depth_ = 1;
  Function deeper_;
  std::size_t index_ = 0;
};

class MacroObject final : public Object {
 public:
  MacroObject(Interpreter& interpreter, const Statement& macro,
              std::shared_ptr<Scope> around)
      : interpreter_(interpreter), macro_(macro), around_(std::move(around)) {}
  Value attribute(const std::string& name) const override {
    return name == "name" ? Value::of(macro_.text) : Value::undefined(name);
  }
  bool callable() const override { return true; }
  Value call(Budget&, const Arguments& arguments) override {
    return interpreter_.call_macro(macro_, around_, arguments);
  }

 private:
  Interpreter& interpreter_;
  const Statement& macro_;
  std::shared_ptr<Scope> around_;
};

}  // namespace trireme::data::jinja
