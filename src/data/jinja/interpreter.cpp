// Runs the statements of a template.
// SPDX-License-Identifier: Apache-2.0
#include "data/jinja/interpreter.hpp"

#include "data/jinja/objects.hpp"

namespace trireme::data::jinja {

const Value* Scope::find(std::string_view name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->around.get())
    if (const auto found = scope->values.find(name); found != scope->values.end())
      return &found->second;
  return nullptr;
}

// Macros and namespaces may hold what holds them.
Interpreter::~Interpreter() {
  for (const auto& held : namespaces_)
    if (const auto object = held.lock()) static_cast<NamespaceObject&>(*object).clear();
  for (const auto& held : scopes_)
    if (const auto scope = held.lock()) scope->values.clear();
}

std::shared_ptr<Scope> Interpreter::enter(std::shared_ptr<Scope> around) {
  auto scope = std::make_shared<Scope>();
  scope->around = std::move(around);
  return std::exchange(scope_, std::move(scope));
}

Written Interpreter::render(const Block& block, const Dict& globals) {
  enter(nullptr);
  for (const auto& entry : globals) scope_->values[entry.first] = entry.second;
  enter(scope_);
  out_ = &written_.text;
  run(block);
  return std::move(written_);
}

void Interpreter::write(const std::string& text) { *out_ += text; }

Interpreter::Flow Interpreter::run(const Block& block) {
  const Budget::Level level(budget_);
  for (const Statement& statement : block) {
    budget_.step();
    line_ = statement.line;
    const Flow flow = run(statement);
    if (flow != Flow::next) return flow;
  }
  return Flow::next;
}

Interpreter::Flow Interpreter::run(const Statement& statement) {
  switch (statement.kind) {
    case Do::data:
      budget_.make(statement.text.size());
      write(statement.text);
      return Flow::next;
    case Do::print: write(to_text(value(statement.parts[0].get()), budget_)); break;
    case Do::branch: return run_branch(statement);
    case Do::loop: return run_loop(statement);
    case Do::assign:
    case Do::assign_block: run_assign(statement); break;
    case Do::macro: {
      scopes_.push_back(scope_);
      scope_->values[statement.text] =
          Value::of(std::make_shared<MacroObject>(*this, statement, scope_));
      break;
    }
    case Do::with: run_with(statement); break;
    case Do::generation: run_generation(statement); break;
    case Do::filter: run_filter(statement); break;
    case Do::caller: run_caller(statement); break;
    case Do::stop: return Flow::stop;
    case Do::go_on: return Flow::go_on;
  }
  return Flow::next;
}

Interpreter::Flow Interpreter::run_branch(const Statement& branch) {
  for (std::size_t i = 0; i < branch.parts.size(); ++i)
    if (truth(value(branch.parts[i].get()))) return run(branch.blocks[i]);
  const bool otherwise = branch.blocks.size() > branch.parts.size();
  return otherwise ? run(branch.blocks.back()) : Flow::next;
}

void Interpreter::assign(const std::vector<std::string>& names, const Value& value) {
  if (names.size() == 1) {
    scope_->values[names[0]] = value;
    return;
  }
  const List items = items_of(value, budget_);
  if (items.size() != names.size())
    refuse(format("{} names are given {} values", names.size(), items.size()));
  for (std::size_t i = 0; i < names.size(); ++i) scope_->values[names[i]] = items[i];
}

Interpreter::Flow Interpreter::run_loop(const Statement& loop) {
  return run_loop_over(loop, value(loop.parts[0].get()), 1);
}

Interpreter::Flow Interpreter::run_loop_over(const Statement& loop, const Value& all,
                                             int depth) {
  List items = items_of(all, budget_);
  const std::shared_ptr<Scope> before = enter(scope_);
  if (loop.parts[1] != nullptr) {
    List kept;
    for (Value& item : items) {
      assign(loop.names, item);
      if (truth(value(loop.parts[1].get()))) kept.push_back(std::move(item));
    }
    items = std::move(kept);
  }
  Function deeper;
  if (loop.flag)
    deeper = [this, &loop, depth, around = std::weak_ptr<Scope>(before)](
                 Budget&, const Arguments& arguments) {
      const Value inner = arguments.bind({"iterable"})[0];
      std::string text;
      std::string* const outer = std::exchange(out_, &text);
      const std::shared_ptr<Scope> here = std::exchange(scope_, around.lock());
      if (scope_ == nullptr) refuse("a loop is called behind its end");
      run_loop_over(loop, inner, depth + 1);
      scope_ = here;
      out_ = outer;
      return Value::of(std::move(text));
    };
  const auto state =
      std::make_shared<LoopObject>(std::move(items), depth, std::move(deeper));
  bool finished = false;  // an iteration, for what stands under else
  Flow flow = Flow::next;
  for (std::size_t i = 0; i < state->items().size() && flow != Flow::stop; ++i) {
    scope_ = before;
    enter(scope_);
    state->go_to(i);
    scope_->values["loop"] = Value::of(state);
    assign(loop.names, state->items()[i]);
    flow = run(loop.blocks[0]);
    finished = finished || flow == Flow::next;
  }
  scope_ = before;
  if (finished || loop.blocks.size() == 1) return Flow::next;
  return run(loop.blocks[1]);
}

std::string Interpreter::written_by(const Block& block) {
  std::string text;
  std::string* before = std::exchange(out_, &text);
  run(block);  // when it throws, the whole ends
  out_ = before;
  return text;
}

void Interpreter::run_assign(const Statement& assignment) {
  Value result;
  if (assignment.kind == Do::assign) {
    result = value(assignment.parts[0].get());
  } else {
    result = Value::of(written_by(assignment.blocks[0]));
    if (assignment.parts[0] != nullptr) {
      scope_->values[std::string(block_name)] = result;
      result = value(assignment.parts[0].get());
    }
  }
  if (assignment.text.empty()) return assign(assignment.names, result);
  const Value* held = scope_->find(assignment.names[0]);
  Value* place = held != nullptr && held->is(Kind::object)
                     ? held->object()->settable(assignment.text)
                     : nullptr;
  if (place == nullptr)
    refuse("'" + assignment.names[0] + "' is no namespace, so that nothing can be set");
  *place = result;
}

void Interpreter::run_with(const Statement& with) {
  std::vector<Value> given;
  for (const NodePtr& part : with.parts) given.push_back(value(part.get()));
  const std::shared_ptr<Scope> before = enter(scope_);
  for (std::size_t i = 0; i < given.size(); ++i) scope_->values[with.names[i]] = given[i];
  run(with.blocks[0]);
  scope_ = before;
}

void Interpreter::run_generation(const Statement& generation) {
  if (out_ != &written_.text)
    refuse("{% generation %} within a macro, a set block or another one is unsupported");
  const std::shared_ptr<Scope> before = enter(scope_);
  const std::string text = written_by(generation.blocks[0]);
  scope_ = before;
  written_.generated.emplace_back(written_.text.size(),
                                  written_.text.size() + text.size());
  write(text);
}

void Interpreter::run_filter(const Statement& filter) {
  const std::shared_ptr<Scope> before = enter(scope_);
  std::string text = written_by(filter.blocks[0]);
  scope_->values[std::string(block_name)] = Value::of(std::move(text));
  const Value result = value(filter.parts[0].get());
  scope_ = before;
  write(to_text(result, budget_));
}

void Interpreter::run_caller(const Statement& caller) {
  scopes_.push_back(scope_);
  const Value body =
      Value::of(std::make_shared<MacroObject>(*this, caller.blocks[1][0], scope_));
  write(to_text(call(*caller.parts[0], &body), budget_));
}

Value Interpreter::call_macro(const Statement& macro,
                              const std::shared_ptr<Scope>& around,
                              const Arguments& arguments) {
  const std::size_t count = macro.names.size();
  if (arguments.positional.size() > count)
    refuse(format("the macro '{}' takes at most {} arguments, {} were given", macro.text,
                  count, arguments.positional.size()));
  for (const auto& entry : arguments.named)
    if (!(macro.flag && entry.first == "caller") &&
        std::find(macro.names.begin(), macro.names.end(), entry.first) ==
            macro.names.end())
      refuse("the macro '" + macro.text + "' has no argument '" + entry.first + "'");
  const std::shared_ptr<Scope> before = enter(around);
  for (std::size_t i = 0; i < count; ++i) {
    const auto named =
        std::find_if(arguments.named.begin(), arguments.named.end(),
                     [&](const auto& entry) { return entry.first == macro.names[i]; });
    const std::size_t first_default = count - macro.parts.size();
    Value argument = Value::undefined(macro.names[i]);
    if (i < arguments.positional.size())
      argument = arguments.positional[i];
    else if (named != arguments.named.end())
      argument = named->second;
    else if (i >= first_default)
      argument = value(macro.parts[i - first_default].get());
    scope_->values[macro.names[i]] = std::move(argument);
  }
  if (macro.flag) {  // a caller is not handed on to macros within
    const auto given =
        std::find_if(arguments.named.begin(), arguments.named.end(),
                     [](const auto& one) { return one.first == "caller"; });
    scope_->values["caller"] =
        given == arguments.named.end() ? Value::undefined("caller") : given->second;
  }
  Value text = Value::of(written_by(macro.blocks[0]));
  scope_ = before;
  return text;
}

Value Interpreter::make_namespace(const Arguments& arguments) {
  Dict values;
  for (const Value& one : arguments.positional) {
    if (!one.is(Kind::mapping)) refuse("a namespace is made of a dict or named values");
    values.insert(values.end(), one.entries().begin(), one.entries().end());
  }
  for (const auto& entry : arguments.named) values.push_back(entry);
  auto object = std::make_shared<NamespaceObject>(std::move(values));
  budget_.elements(1);
  namespaces_.push_back(object);
  return Value::of(std::shared_ptr<Object>(std::move(object)));
}

}  // namespace trireme::data::jinja
