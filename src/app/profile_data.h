// A profile: what each kernel, stage and layer of a model has cost. Saved as JSON and read again for comparisons.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "app/profile_machine.h"
#include "base/result.h"

namespace smelt {

// Of one replay of the plan, on average over those that were measured.
struct ProfiledKernel {
  std::string name;   // of the code; the same in every process
  std::string what;   // what it computes, in words
  std::string lines;  // of the model's source that made its results: "mla.cpp:68"
  std::string stage;  // where most of its time goes: "experts"
  std::string options;
  double calls = 0;
  double seconds = 0;  // of all calls
  double waiting = 0;  // of these, on average over the workers: for the others to end
  double workers = 0;  // that had tasks of it, those of all calls added up; 0: not known
  double read = 0, written = 0, float_ops = 0, int_ops = 0;  // of all calls
  double byte_ops = 0;                                       // of the integer ones: products of bytes and their sums
  bool uses_unit = false;                                    // that multiplies matrices
  int64_t tasks = 0;                                         // of one call
  double scalar_share = 0;                                   // of the operations: outside of SIMD lanes
  double gather_share = 0;                                   // of the loads: one address a lane, weights left out
  double weight_gather_share = 0;                            // of the loads: weights, one address a lane
  double weight_passes =
      0;                    // how often the code loads each byte of its weights; 0: these are not most of what it reads
  double float_passes = 0;  // floating-point operations of the code over those of the formula; 0: not known
  double remote_share = 0;  // of its weights: on other nodes of memory than the workers that read them
  double serial_share = 0;  // of the time in loops: rounds wait for each other, see codegen/execution.h
  int serial_cycles = 0, serial_instructions = 0;  // of such a round
  std::vector<std::string> advice;

  double seconds_per_call() const { return calls > 0 ? seconds / calls : 0; }
  double workers_per_call() const { return calls > 0 ? workers / calls : 0; }
  double bytes() const { return read + written; }
  double operations() const { return float_ops + int_ops; }
};

// How near a kernel comes to what a machine reaches in the operation that limits it, and which that is.
struct ArithmeticShare {
  double share = 0;  // below zero: nobody knows how fast the machine is in it
  const char* kind =
      "f32";  // "int8": sums of products of bytes; "unit": these by the matrix unit; "int": other integers
};
ArithmeticShare arithmetic_share(const ProfiledKernel& kernel, const MachineRates& machine);

struct ProfiledPart {
  std::string name;  // "attention", "layer 3"
  double seconds = 0;
  double bytes = 0;
  double calls = 0;
  double waiting = 0;  // of the seconds, on average over the workers: for the others to end
};

struct ProfiledPlan {
  std::string name;                     // "decode", "prefill"
  double tokens = 0;                    // of one replay
  int runs = 0;                         // replays that were measured
  std::vector<ProfiledKernel> kernels;  // costliest first
  std::vector<ProfiledPart> stages;     // in the order in which a token meets them
  std::vector<ProfiledPart> layers;
  // Of each worker, the part of the time in which it waits for the others; empty where the device does not tell.
  std::vector<double> waiting;

  double seconds() const;
  double calls() const;
  double bytes() const;
};

struct Profile {
  std::string model;
  std::string estimated_for;  // a machine on which nothing was run; empty: times were measured on this one
  MachineRates machine;
  std::vector<ProfiledPlan> plans;
};

nlohmann::ordered_json json_of(const Profile& profile);
std::string text_of_profile(const Profile& profile);  // as it is saved
Result<Profile> profile_of(const nlohmann::ordered_json& json);
Result<Profile> load_profile(const std::string& path);  // an Error names the file

}  // namespace smelt
