#include "render/wide_loads.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "codegen/instruction_views.h"
#include "render/addresses.h"

namespace smelt {
namespace {

constexpr int kNothing = -1;  // varies: the offset is a constant

// Loads between which nothing happens to what they read: of one type, from one address on.
using GroupKey = std::tuple<bool, int64_t, int, DType>;  // whether scratch memory, where, varying offset
struct Member {
  int position = 0;
  int64_t constant = 0;
};

class Grouping {
 public:
  Grouping(const Program& program, const std::vector<int64_t>& multiples, int64_t most_bytes)
      : program_(program), multiples_(multiples), most_bytes_(most_bytes), loads_(program.code.size()) {}

  std::vector<WideLoad> run() {
    for (size_t i = 0; i < program_.code.size(); ++i) {
      const Instruction& x = program_.code[i];
      loads_[i] = {.first = static_cast<int>(i)};
      if (x.kind == Inst::Load) add(static_cast<int>(i), x);
      if (x.kind == Inst::Loop || x.kind == Inst::EndLoop || x.kind == Inst::Barrier) close_all();
      if (x.kind == Inst::Store) close_memory(pointer_of(x));
    }
    close_all();
    return std::move(loads_);
  }

 private:
  const Instruction& pointer_of(const Instruction& x) const {
    return program_.code[static_cast<size_t>(AccessView(x).pointer)];
  }

  void add(int position, const Instruction& x) {
    const Instruction& pointer = pointer_of(x);
    SplitOffset at = split_offset(program_, AccessView(x).offset);
    if (const Instruction& rest = program_.code[static_cast<size_t>(at.varying)]; is_constant(rest))
      at = {kNothing, at.constant + rest.arg.i};
    open_[{pointer.kind == Inst::Scratch, pointer.arg.i, at.varying, x.dtype}].push_back({position, at.constant});
  }

  void close_all() {
    for (const auto& [key, members] : open_) close(key, members);
    open_.clear();
  }
  // Regions of scratch memory have names of their own, but one may reach into another.
  void close_memory(const Instruction& pointer) {
    std::erase_if(open_, [&](const auto& group) {
      const bool is_scratch = std::get<0>(group.first);
      const bool is_same =
          is_scratch == (pointer.kind == Inst::Scratch) && (is_scratch || std::get<1>(group.first) == pointer.arg.i);
      if (is_same) close(group.first, group.second);
      return is_same;
    });
  }

  void close(const GroupKey& key, std::vector<Member> members) {
    std::stable_sort(members.begin(), members.end(),
                     [](const Member& a, const Member& b) { return a.constant < b.constant; });
    const int64_t size = size_of(std::get<DType>(key));
    for (size_t i = 0; i < members.size();) {
      size_t taken = 1;
      for (int count : {4, 2})
        if (taken == 1 && count * size <= most_bytes_) taken = take(key, members, i, count, size);
      i += taken;
    }
  }

  // How many members from `begin` on become one load of `count` elements; 1: none.
  size_t take(const GroupKey& key, const std::vector<Member>& members, size_t begin, int count, int64_t size) {
    if (aligned(key, members[begin].constant) < count * size) return 1;
    size_t end = begin;
    std::vector<std::pair<int, int>> found;  // positions and elements
    for (int element = 0; element < count; ++element) {
      const int64_t wanted = members[begin].constant + element * size;
      if (end == members.size() || members[end].constant != wanted) return 1;
      for (; end < members.size() && members[end].constant == wanted; ++end)
        found.emplace_back(members[end].position, element);
    }
    const int first = std::min_element(found.begin(), found.end())->first;
    for (const auto& [position, element] : found)
      loads_[static_cast<size_t>(position)] = {first, members[begin].constant, count, element};
    return end - begin;
  }

  int64_t aligned(const GroupKey& key, int64_t constant) const {
    const int64_t start = constant + (std::get<0>(key) ? std::get<1>(key) : 0);
    const int64_t of_start = start == 0 ? kBufferAlign : start & -start;
    const int varying = std::get<2>(key);
    const int64_t of_rest = varying == kNothing ? kBufferAlign : multiples_[static_cast<size_t>(varying)];
    return std::min({kBufferAlign, of_start, of_rest});
  }

  const Program& program_;
  const std::vector<int64_t>& multiples_;
  const int64_t most_bytes_;
  std::vector<WideLoad> loads_;
  std::map<GroupKey, std::vector<Member>> open_;
};

}  // namespace

std::vector<WideLoad> wide_loads(const Program& program, const std::vector<int64_t>& multiples, int64_t most_bytes) {
  return Grouping(program, multiples, most_bytes).run();
}

}  // namespace smelt
