// Interpreter: walks the syntax tree of a template and writes its text. One for each rendering.
//
// Statements are in interpreter.cpp, expressions in evaluate.cpp, attributes and items in access.cpp; what operators,
// filters, tests and methods do has files of its own. All of them may throw TemplateError.
#pragma once

#include <ctime>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jinja/limits.h"
#include "jinja/syntax.h"
#include "jinja/value.h"

namespace smelt::jinja {

class LoopObject;

// Variables of one block, and the block around it. Macros keep theirs alive.
struct Scope {
  std::shared_ptr<Scope> parent;
  std::vector<std::pair<std::string, Value>> variables;

  const Value* find(std::string_view name) const;  // here or further out
  void set(std::string_view name, Value value);
};
using ScopePtr = std::shared_ptr<Scope>;

class Interpreter {
 public:
  Interpreter(const Limits& limits, std::function<std::tm()> now);
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  Text render(const Body& body, std::span<const std::pair<std::string, Value>> context);

  // --- for operators, filters, tests, methods and objects
  void charge(int64_t operations);
  void charge_for(const Value& value);  // looking at all of it once
  void charge_bytes(size_t count);      // making so many; also checks the limit of a text
  const Limits& limits() const { return limits_; }
  std::tm now() const { return now_(); }

  Value attribute(const Value& object, std::string_view name);  // object.name
  Value item(const Value& object, const Value& key);            // object[key]
  Value slice(const Value& object, const Value& start, const Value& stop, const Value& step);
  Value call(const Value& callee, const Arguments& arguments);
  Value filter(std::string_view name, const Value& subject, const Arguments& arguments);
  bool test(std::string_view name, const Value& subject, const Arguments& arguments);
  // What iterating gives: characters of a text, keys of a dict.
  SequenceRef items_of(const Value& iterable);

  Value call_macro(const MacroDefinition& macro, const ScopePtr& closure, const Arguments& arguments);
  Value call_loop(const For& loop, const ScopePtr& scope, int depth, const Value& iterable);
  // Objects that may refer to themselves; they are released at the end.
  ObjectRef keep(ObjectRef object);

 private:
  enum class Flow { next, break_loop, continue_loop };

  // One more body or expression inside the others, so that the stack has an end whatever macros and syntax do together.
  class Nested {
   public:
    explicit Nested(Interpreter& interpreter) : level_(interpreter.level_) {
      if (++level_ > kMostNested) --level_, fail("the template is nested too deep for this chat");
    }
    ~Nested() { --level_; }
    Nested(const Nested&) = delete;

   private:
    static constexpr int kMostNested = 1000;
    int& level_;
  };

  Flow run(const Body& body);
  Flow run_scoped(const Body& body);
  Flow execute(const Statement& statement);
  Flow execute(const Data& data);
  Flow execute(const Print& print);
  Flow execute(const If& statement);
  Flow execute(const For& loop);
  Flow execute(const Set& statement);
  Flow execute(const SetBlock& statement);
  Flow execute(const MacroDefinition& macro);
  Flow execute(const CallBlock& statement);
  Flow execute(const FilterBlock& statement);
  Flow execute(const With& statement);
  Flow execute(const Scoped& statement);
  Flow execute(const Break&) { return Flow::break_loop; }
  Flow execute(const Continue&) { return Flow::continue_loop; }

  Flow run_loop(const For& loop, const Value& iterable, int depth);
  SequenceRef filtered_items(const For& loop, SequenceRef items);
  void write(const Value& value);
  template <class Body>
  Text captured(const Body& write_it);
  Value filtered(const std::vector<ExpressionPtr>& filters, Value value);
  void assign(const Target& target, const Value& value);
  void unpack(const Target& target, const Value& value);
  void bind_parameters(const MacroDefinition& macro, const Arguments& given);

  Value evaluate(const Expression& expression);
  Value evaluate(const ExpressionPtr& expression) { return evaluate(*expression); }
  Value evaluate_or_none(const ExpressionPtr& expression);
  Value eval(const Literal& literal) { return literal.value; }
  Value eval(const Name& name);
  Value eval(const ListDisplay& list);
  Value eval(const DictDisplay& dict);
  Value eval(const Conditional& conditional);
  Value eval(const Unary& unary);
  Value eval(const Chain& chain);
  Value eval(const Concatenation& concatenation);
  Value eval(const Logical& logical);
  Value eval(const Comparison& comparison);
  Value eval(const Attribute& attribute);
  Value eval(const Subscript& subscript);
  Value eval(const Slice& slice);
  Value eval(const Call& call);
  Value eval(const Filter& filter);
  Value eval(const Test& test);
  Arguments evaluate(const CallArguments& arguments);

  const Limits limits_;
  std::function<std::tm()> now_;
  int64_t operations_left_;
  int depth_ = 0;  // of macros and recursive loops
  int level_ = 0;  // of bodies and expressions
  int line_ = 0;   // of what is evaluated
  ScopePtr scope_;
  Text* out_ = nullptr;
  std::vector<ObjectRef> kept_;
};

}  // namespace smelt::jinja
