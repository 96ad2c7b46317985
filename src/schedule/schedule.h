// Schedule: a segment's tensor graph as a list of kernels over buffers.
//
//   split reductions -> choose places -> lower every placed tensor to stores -> group stores into kernels
//     -> plan memory
//
// A kernel's tree is Sink(nests), a nest is Sink(stores): the stores of a nest share their outer loops and run as one
// loop nest; nests of a kernel do not depend on each other, except that nests that write Local buffers come first and
// are run by every worker for itself. Kernels with the same level do not depend on each other.
//
// Kernels do not know which buffers they run on: in a kernel's tree buffers are Params numbered in order of appearance,
// so equal work on different layers is the same node. `buffers[i]` is what argument i is bound to. Nor do they know how
// large symbolic sizes may get: a Var of a tree has the next power of two as its greatest value, at least kRoomOfSizes,
// or kRoomOfSizesInBlocks where blocks of threads share out tasks.
#pragma once

#include <string>
#include <vector>

#include "base/machine.h"
#include "graph/node.h"
#include "schedule/placement.h"

namespace smelt {

constexpr int64_t kRoomOfSizes = 64;  // 512 tokens in eighths, 16384 positions in chunks
// 1024 tokens by 64, a short context in chunks: so few that each of their tasks may have a block.
constexpr int64_t kRoomOfSizesInBlocks = 16;

struct Kernel {
  Ref tree;       // Sink of Sinks of Stores
  Refs buffers;   // argument i: a segment Param or Temp node
  int level = 0;  // kernels of lower levels come first
  Refs values;    // what it leaves in buffers, for people: see line_of(). Of sums of results, the last of these.
  bool operator==(const Kernel&) const = default;
};

struct TempBuffer {
  int64_t offset = 0;  // in the segment's arena, multiple of 64
  int64_t bytes = 0;   // for the greatest symbolic sizes
};

struct Schedule {
  std::vector<Kernel> kernels;    // in order
  std::vector<TempBuffer> temps;  // by Temp number
  int64_t arena_bytes = 0;
};

// What a schedule does on its way, for people; any of it may be empty. Where it is made again with less on chip, what
// was told before counts for nothing.
struct ScheduleObserver {
  std::function<void()> begin;                            // the schedule, anew
  std::function<void(const char* pass, Ref graph)> pass;  // of those on tensors
  PlaceObserver place;
  // A tensor that kernel number `kernel` computes, and the buffer that holds it: of a kernel's own tiles on chip, too.
  std::function<void(Ref tensor, Ref buffer, int kernel)> item;
};

// What is fused, and what is kept where, suits the machine, and what a kernel keeps on chip fits there as far as that
// can be had by keeping less (verify_kernel() says where not). REQUIRES: root is a Sink of Outputs and Writes
// (verify.h: tensor stage).
Schedule make_schedule(Ref root, const Machine& machine = {}, const ScheduleObserver& observe = {});

// The nests of a kernel.
const Refs& nests_of(const Kernel& kernel);
bool is_local_nest(Ref nest);

// One line a kernel, such as `sum[1]<-x  mul[4096]<-x,w`; for tests and DEBUG=2.
std::string summary(const Schedule& schedule);

}  // namespace smelt
