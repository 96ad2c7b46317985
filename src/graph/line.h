// Lines of source that tensors come from, for people who look at kernels: "mla.cpp:68".
//
// They are kept beside the graph: equal nodes made at different lines are one node, and the first line stays. Hashes,
// cache keys and generated code know nothing of them. Functions of tensor.h note the line of their caller; a helper
// that stands for its own caller takes that line as a last argument and opens an AtLine.
#pragma once

#include <optional>
#include <source_location>
#include <string>

#include "graph/node.h"

namespace smelt {

using Line = std::source_location;

// Tensors that are made on this thread while it lives belong to `line`. Within another one it changes nothing.
class AtLine {
 public:
  explicit AtLine(Line line);
  ~AtLine();
  AtLine(const AtLine&) = delete;
  AtLine& operator=(const AtLine&) = delete;

 private:
  bool is_outer_;
};

// The line of a tensor, or of the nearest below it that has one.
std::optional<Line> line_of(Ref node);

std::string to_text(const Line& line);  // file without folders:line

// For make() and rebuild(): what is made now belongs to the line in force, what replaces a tensor to that one's.
void note_line(Ref node);
void inherit_line(Ref from, Ref to);

}  // namespace smelt
