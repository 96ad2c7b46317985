#include "jinja/syntax_height.h"

#include <algorithm>

namespace smelt::jinja {
namespace {

int height(const ExpressionPtr& expression) { return expression ? expression->height : 0; }

template <class Container, class Child>
int tallest(const Container& container, const Child& child) {
  int most = 0;
  for (const auto& item : container) most = std::max(most, height(child(item)));
  return most;
}

constexpr auto itself = [](const auto& item) -> const auto& { return item; };
constexpr auto second = [](const auto& item) -> const auto& { return item.second; };

int height(const CallArguments& arguments) {
  return std::max({tallest(arguments.positional, itself), tallest(arguments.named, second),
                   height(arguments.more_positional), height(arguments.more_named)});
}

struct Children {
  int operator()(const Literal&) const { return 0; }
  int operator()(const Name&) const { return 0; }
  int operator()(const ListDisplay& list) const { return tallest(list.items, itself); }
  int operator()(const DictDisplay& dict) const {
    return std::max(tallest(dict.entries, [](const auto& entry) -> const auto& { return entry.first; }),
                    tallest(dict.entries, second));
  }
  int operator()(const Conditional& c) const { return std::max({height(c.then), height(c.test), height(c.otherwise)}); }
  int operator()(const Unary& unary) const { return height(unary.operand); }
  int operator()(const Chain& chain) const { return std::max(height(chain.first), tallest(chain.rest, second)); }
  int operator()(const Concatenation& c) const { return tallest(c.parts, itself); }
  int operator()(const Logical& logical) const { return tallest(logical.operands, itself); }
  int operator()(const Comparison& c) const { return std::max(height(c.first), tallest(c.rest, second)); }
  int operator()(const Attribute& attribute) const { return height(attribute.object); }
  int operator()(const Subscript& s) const { return std::max(height(s.object), height(s.index)); }
  int operator()(const Slice& s) const {
    return std::max({height(s.object), height(s.start), height(s.stop), height(s.step)});
  }
  int operator()(const Call& call) const { return std::max(height(call.callee), height(call.arguments)); }
  int operator()(const Filter& filter) const { return std::max(height(filter.subject), height(filter.arguments)); }
  int operator()(const Test& test) const { return std::max(height(test.subject), height(test.arguments)); }
};

}  // namespace

int height_of_children(const Expression::Node& node) { return std::visit(Children{}, node); }

}  // namespace smelt::jinja
