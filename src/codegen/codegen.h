// Codegen: a kernel's tree becomes a linear program. codegen.cpp reads top to bottom as the list of its steps.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/heuristics.h"
#include "codegen/program.h"
#include "graph/verify.h"

namespace smelt {

// Options for each nest of a kernel, in order. Empty: the heuristic chooses.
using KernelOpts = std::vector<std::vector<Opt>>;

struct CodegenResult {
  Program program;
  KernelOpts opts;  // what was applied
};

// Called after each pass with its name and the nest as it is now; for DEBUG output.
using PassObserver = std::function<void(const char* pass, const Refs& stores)>;

// The form of a nest behind a pass.
Phase phase_behind(std::string_view pass);

struct CodegenRequest {
  Ref tree;          // Sink(nests of stores), from make_schedule()
  std::string name;  // the entry point
  Machine machine;
  std::vector<std::string> symbols;  // launch values that come first, see linearize.h
  KernelOpts opts;
  PassObserver observe;
  OptObserver observe_options = {};  // of the choice for each nest, in order; not where `opts` are given
};

CodegenResult generate(const CodegenRequest& request);

// The stores of a nest before options, as choose_opts() and try_opt() expect them: what is computed, to the last bit.
Refs prepare_nest(Ref nest, const Machine& machine, const PassObserver& observe = {});

}  // namespace smelt
