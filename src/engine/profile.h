// What a session tells of its plans and their runs: the raw material of `smelt profile`.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "codegen/codegen.h"
#include "model/dequant.h"
#include "runtime/device.h"

namespace smelt {

enum class PlanKind {
  Decode,        // a token of each of EngineOptions::sequences; of several plans the one of the shortest contexts
  Prefill,       // a chunk of a prompt, without logits
  Head,          // the logits of the last token of a prompt
  MiddleDecode,  // Decode where a context is longer than Machine::near_context, if that is another plan
  LongDecode,    // Decode where a context is longer than Machine::short_context, if that is another plan
  WideDecode,    // Decode of the longest contexts (schedule/tiles.h), if that is another plan
  LongPrefill,   // Prefill of at least Machine::long_prompt tokens, if that is another plan
};

constexpr PlanKind kPlanKinds[] = {PlanKind::Decode,       PlanKind::Prefill,    PlanKind::Head,
                                   PlanKind::MiddleDecode, PlanKind::LongDecode, PlanKind::WideDecode,
                                   PlanKind::LongPrefill};

// What an argument of a launch is bound to.
struct LaunchBuffer {
  std::string name;  // of a weight: its tensor without "blk.N."; else what it is for: "hidden", "cache", "temp 3"
  bool is_weight = false;
  int64_t bytes = 0;       // of a weight: all of its tensor; else as many as it may need
  std::string shape = {};  // "f32 [tokens8*8, 256]"; of a weight as in the file: "Q4_K [64, 1536, 2048]"
  // Of a weight: its tensor in the file, how it lies, and its role, if that is a choice (model/layout_choice.h).
  std::string tensor = {};
  WeightLayout layout = {};
  int split = 0;  // TensorShape::split
  std::string role = {};
  std::string format = {};  // of a weight: "Q4_K"
};

struct PlanLaunch {
  int kernel = 0;                     // see Session::kernel()
  std::string stage;                  // "embed", "block", "head"
  int64_t layer = -1;                 // of a block
  std::vector<LaunchBuffer> buffers;  // by Param number of the kernel's tree
  std::vector<std::string> lines;     // of the model's source that made its results: "mla.cpp:68"
  Launch launch;                      // what the device runs; lives as long as the session
};

// A piece of a plan: the graph that was scheduled, and what came of it.
struct PlanSegment {
  Ref root;                         // see model/segment.h
  int number = 0;                   // segments of equal graphs have one; they share their kernels
  std::string stage;                // as of its launches
  int64_t layer = -1;               // of a block
  std::vector<LaunchBuffer> slots;  // what the Params of the graph are bound to
  std::vector<int> kernels;         // of each kernel of make_schedule(root), see KernelSet::kernel()
};

struct KernelDescription {
  std::string name;
  Ref tree;
  KernelOpts opts;
  Machine machine;  // that it was generated for
};

// A kernel in its later forms.
struct KernelListing {
  Program program;
  Source source;
  Assembly assembly;
};

// The kernels of a model and where its plans launch them: of one that runs, or of one that is only looked at
// (model_plans.h).
class KernelSet {
 public:
  virtual ~KernelSet() = default;
  virtual int kernel_count() const = 0;
  virtual KernelDescription kernel(int number) const = 0;
  virtual KernelListing listing(int number, bool with_assembly) const = 0;
  virtual std::vector<PlanLaunch> launches(PlanKind plan) const = 0;
  virtual std::vector<PlanSegment> segments(PlanKind plan) const = 0;
};

// One replay of a plan. Valid during the call that it is handed to.
struct RunTimes {
  PlanKind plan = PlanKind::Decode;
  int64_t tokens = 0;    // appended
  int64_t position = 0;  // of the first one
  std::map<std::string, int64_t> symbols;
  std::span<const int64_t> times_ns;     // launches + 1: the start, then the end of each launch
  std::span<const int64_t> arrivals_ns;  // as in RunOptions; empty where the device tells of no workers
};

}  // namespace smelt
