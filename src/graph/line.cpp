#include "graph/line.h"

#include <deque>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

namespace smelt {
namespace {

thread_local std::optional<Line> current;

struct Lines {
  std::mutex mutex;
  std::unordered_map<const Node*, Line> of;
};

Lines& lines() {
  static Lines table;
  return table;
}

}  // namespace

AtLine::AtLine(Line line) : is_outer_(!current) {
  if (is_outer_) current = line;
}
AtLine::~AtLine() {
  if (is_outer_) current.reset();
}

void note_line(Ref node) {
  if (!current || node->shape.empty()) return;
  std::lock_guard lock(lines().mutex);
  lines().of.try_emplace(node.get(), *current);
}

void inherit_line(Ref from, Ref to) {
  if (from == to || from->shape.empty() || to->shape.empty()) return;
  std::lock_guard lock(lines().mutex);
  const auto found = lines().of.find(from.get());
  if (found == lines().of.end()) return;
  const Line line = found->second;  // a copy: the table may move
  lines().of.try_emplace(to.get(), line);
}

std::optional<Line> line_of(Ref node) {
  std::lock_guard lock(lines().mutex);
  std::deque<const Node*> next{node.get()};
  std::unordered_set<const Node*> seen{node.get()};
  for (; !next.empty(); next.pop_front()) {
    if (const auto found = lines().of.find(next.front()); found != lines().of.end()) return found->second;
    for (Ref source : next.front()->src)
      if (seen.insert(source.get()).second) next.push_back(source.get());
  }
  return std::nullopt;
}

std::string to_text(const Line& line) {
  const std::string path = line.file_name();
  return path.substr(path.rfind('/') + 1) + ":" + std::to_string(line.line());
}

}  // namespace smelt
