// The attribute that map(attribute="a.b"), sort and others look at: names and indices with dots between them. Without
// one it is the value itself.
#pragma once

#include <vector>

#include "jinja/value.h"

namespace smelt::jinja {

class Getter {
 public:
  // `attribute`: a string, an index, or None.
  Getter(Interpreter& interpreter, const Value& attribute) : Getter(interpreter, attribute, {}, false) {}
  Getter(Interpreter& interpreter, const Value& attribute, Value fallback, bool has_fallback);
  Value operator()(const Value& value) const;

 private:
  Interpreter* interpreter_;
  std::vector<Value> path_;
  Value fallback_;  // for what is undefined on the way
  bool has_fallback_;
};

}  // namespace smelt::jinja
