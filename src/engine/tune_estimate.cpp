#include "engine/tune_estimate.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "codegen/instruction_views.h"
#include "codegen/known_integers.h"
#include "codegen/matrix_cost.h"

namespace smelt {
namespace {

constexpr double kRound = 1;            // of a loop: count and jump
constexpr double kSpill = 2;            // store and load again
constexpr double kScalarInteger = 0.3;  // addresses, which run beside the vectors
constexpr double kPlainDot = 12;        // bytes of both words, and four multiply-adds

// Adds up a program's instructions, each as often as the loops around it turn.
class Walk {
 public:
  explicit Walk(const EstimateRequest& request) : request_(request), integers_(request.program, request.symbols) {}

  ProgramEstimate run() {
    ProgramEstimate out;
    std::vector<double> times = {1}, carried = {0};
    for (size_t at = 0; at < request_.program.code.size(); ++at) {
      const Instruction& i = request_.program.code[at];
      if (i.kind == Inst::Loop) {
        times.push_back(times.back() * integers_.rounds(i).value_or(1));
        carried.push_back(0);
        out.work += times.back() * kRound;
      } else if (i.kind == Inst::EndLoop) {
        const double registers = static_cast<double>(request_.machine.registers);
        out.spills += std::max(0.0, carried.back() - registers) * times.back() * kSpill;
        times.pop_back();
        carried.pop_back();
      } else {
        if (i.kind == Inst::AccSet) carried.back() += vectors_of(i.dtype, i.lanes);
        out.work += times.back() * work_of(i);
      }
    }
    return out;
  }

 private:
  double vectors_of(DType dtype, int lanes) const {
    const double bytes = static_cast<double>(size_of(dtype)) * lanes;
    return std::max(1.0, std::ceil(bytes / static_cast<double>(request_.machine.vector_bytes)));
  }

  double work_of(const Instruction& i) const {
    switch (i.kind) {
      case Inst::Symbol:
      case Inst::Part:
      case Inst::LaneIndex:
      case Inst::ThreadIndex:
      case Inst::Buffer:
      case Inst::Scratch:
      case Inst::Loop:
      case Inst::EndLoop:
      case Inst::Acc:
      case Inst::AccGet:
      case Inst::AccSet:
      case Inst::Fetch:
      case Inst::Await: return 0;
      case Inst::MatrixDot: return work_of_matrices(i);
      case Inst::MatrixItem: return work_of_item(code(only_operand(i)));
      case Inst::Prefetch:
      case Inst::Copy:
      case Inst::CopyGroup:
      case Inst::CopyWait:
      case Inst::BulkCopy:
      case Inst::SignalInit:
      case Inst::SignalWait:
      case Inst::Shuffle:
      case Inst::WarpItem:
      case Inst::Barrier: return 1;
      case Inst::LaneReduce: return 2 * std::log2(std::max(i.lanes, 2));
      case Inst::Load:
      case Inst::Store: {
        const bool scattered = code(AccessView(i).offset).lanes > 1;
        return scattered ? i.lanes : vectors_of(i.dtype, i.lanes);
      }
      case Inst::Value: break;
    }
    if (i.op == Op::Const) return 0;
    const bool is_plain_dot = i.op == Op::Dot4 && request_.machine.byte_dot == ByteDot::Plain;
    if (is_plain_dot) return kPlainDot * vectors_of(i.dtype, i.lanes);
    if (i.lanes == 1 && is_int(i.dtype)) return kScalarInteger;
    // A conversion works on the wider of the two types.
    double vectors = vectors_of(i.dtype, i.lanes);
    for (int s : i.src) vectors = std::max(vectors, vectors_of(code(s).dtype, code(s).lanes));
    return vectors;
  }

  // A row is loaded back where a unit has left it; else it is there.
  double work_of_item(const Instruction& product) const {
    const MatrixShape shape = matrix_shape(product);
    return !shape.in_fragments && unit_for_bytes(request_.machine) ? 1 : 0;
  }

  double work_of_matrices(const Instruction& i) const {
    const MatrixShape shape = matrix_shape(i);
    const MatrixUnit* unit = shape.of_halves ? unit_for_halves(request_.machine) : unit_for_bytes(request_.machine);
    if (shape.in_fragments) return std::max(1.0, unit ? request_.machine.vectors_per_cycle * unit->start_cycles : 0.0);
    const double cycles =
        unit ? tile_cycles(shape, *unit) : dot_cycles(shape, request_.machine) * vectors_of(DType::I32, i.lanes);
    return request_.machine.vectors_per_cycle * cycles;
  }

  const Instruction& code(int at) const { return request_.program.code[static_cast<size_t>(at)]; }

  const EstimateRequest& request_;
  const KnownIntegers integers_;
};

// The worker that has most tasks is waited for.
double share_of_slowest(int64_t tasks, int workers) {
  if (tasks <= 0) return 1;
  return static_cast<double>((tasks + workers - 1) / workers) / static_cast<double>(tasks);
}

// A program of threads says what one thread does; those of a warp do it together.
double warps_of(const EstimateRequest& request) {
  return std::max(1.0,
                  static_cast<double>(request.program.threads) / static_cast<double>(request.machine.warp_threads));
}

}  // namespace

ProgramEstimate estimate(const EstimateRequest& request) {
  ProgramEstimate out = Walk(request).run();
  const double share = share_of_slowest(request.tasks, request.workers) * warps_of(request);
  const double work_per_second = request.machine.cycles_per_second * request.machine.vectors_per_cycle;
  const double compute = (out.work + out.spills) * share / work_per_second;
  const double memory = request.bytes_per_second > 0 ? request.bytes / request.bytes_per_second : 0;
  // Waiting for memory and computing overlap, but never quite.
  out.seconds = std::max(compute, memory) + 0.1 * std::min(compute, memory);
  return out;
}

}  // namespace smelt
