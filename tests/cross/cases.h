// Kernels with what they are given and what they should make of it: what tools/cross_check runs on processors that this
// machine is not.
#pragma once

#include <string>
#include <vector>

#include "codegen/heuristics.h"
#include "codegen/program.h"

namespace smelt::cross {

using Bytes = std::vector<std::byte>;

// How exactly a buffer has to be as expected. Neither field is set: bit for bit, except that every NaN is one.
struct Agreement {
  DType dtype = DType::U8;
  int ulps = 0;         // floats may be so many numbers of their dtype away
  double relative = 0;  // or so much of (1 + the greatest number expected of the buffer)
};

struct Case {
  std::string name;  // for people
  Program program;
  std::vector<Bytes> before, after;   // by buffer argument
  std::vector<Agreement> agreements;  // by buffer argument; those that are missing: bit for bit
  std::vector<int64_t> symbols;
  int64_t parts = 1;  // workers, one after the other
};

// Dot4, Mad16 and Lut4 at every width and range of bytes, and products of matrices.
std::vector<Case> byte_cases();
// Every op and cast at every dtype; all halves; exp2, log2; reductions over lanes.
std::vector<Case> op_cases();
// Products with the weights of every block format, as a machine's heuristic makes them, of floats and of bytes.
std::vector<Case> product_cases(const Machine& machine);
// The kernels of random graphs of everything that models are made of.
std::vector<Case> graph_cases(const Machine& machine, int graphs);

// The case of a program that starts from these buffers: runs the evaluator.
Case evaluated_case(std::string name, Program program, std::vector<Bytes> before,
                    std::vector<Agreement> agreements = {}, std::vector<int64_t> symbols = {}, int64_t parts = 1);

// How the buffers that a kernel's tree stores to may differ.
std::vector<Agreement> agreements_of(Ref tree, size_t buffers, double relative);

}  // namespace smelt::cross
