// The compiler's way, recorded: each kernel and each segment is made once more with observers at every step. Nothing of
// this is there while a model runs.
#pragma once

#include <atomic>
#include <functional>

#include "app/viz/tables.h"
#include "engine/profile.h"
#include "graph/verify.h"

namespace smelt {

struct RecordHooks {
  std::function<void(int done, int total)> progress = {};
  const std::atomic<bool>* cancel = nullptr;  // then what is recorded so far comes back
};

// Of each kernel: passes with the rules that fired, options tried, all texts.
Json record_kernels(const KernelSet& kernels, Tables& tables, const RecordHooks& hooks = {});

// A kernel with other options, as record_kernels() has its texts. REQUIRES: they suit it.
Json record_texts(const KernelListing& listing, const Machine& machine);

// The segments of all plans, equal ones once; fills in `plans`: their launches.
Json record_segments(const KernelSet& kernels, Tables& tables, Json& plans);

// What breaks the rules of its phase, the first of it: `fault`, the sentence, and `fault_node`, which it is about.
void put_fault(Ref root, Phase phase, Tables& tables, Json& pass);

}  // namespace smelt
