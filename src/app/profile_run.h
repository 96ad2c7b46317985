// What `smelt profile` and `smelt viz` time, and how: a model of a file or one of random weights, its prompt and its
// tokens, with a clock between launches.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/bench_rooflines.h"
#include "app/engine_flags.h"
#include "app/profile_collect.h"
#include "app/synthetic_model.h"
#include "base/progress.h"
#include "engine/model_plans.h"

namespace CLI {
class Option;
}

namespace smelt {

struct ProfiledFlags {
  EngineFlags engine;
  std::string machine;                // by name: estimate for it, and run nothing; empty: time this one
  std::string synthetic;              // in place of a file
  int64_t tokens = 20;                // decode steps
  int64_t prompt_tokens = 256;        // random ones, where there is no text
  std::optional<std::string> prompt;  // the text
  int64_t depth = 0;                  // tokens in the context before decoding is measured
  int64_t parallel = 1;               // sequences that decode side by side
  int repetitions = 5;                // of the prompt
};

// Their options. Returns --machine.
CLI::Option* declare_profiled(CLI::App& app, ProfiledFlags& flags);

// Of the session that is timed.
EngineOptions options_of(const ProfiledFlags& flags);

// What is timed: a model of a file, or one of random weights in memory.
struct ProfiledModel {
  std::unique_ptr<SyntheticModel> synthetic;      // this one
  std::unique_ptr<Session> session_of_synthetic;  // and its session, or
  OpenedModel opened;                             // that
  Session* session = nullptr;
  std::string name;

  static Result<ProfiledModel> open(const ProfiledFlags& flags, const OpenWatch& watch = {});
};

// Prompt and decoding, one after the other; each with a warm-up that is not counted.
class ProfileRun {
 public:
  // REQUIRES: flags and model outlive it.
  ProfileRun(const ProfiledFlags& flags, const ProfiledModel& model, int threads);

  Status run();
  // Adds what the processor could do between the runs, if it was the one that was timed.
  void improve(MachineRates& machine) const;
  // A prompt of one token is decoded, not prefilled.
  int prompts() const { return prompt_.size() > 1 ? flags_.repetitions : 0; }
  const ProfileCollector& collector() const { return collector_; }

 private:
  static std::vector<int32_t> prompt_of(const ProfiledFlags& flags, const ProfiledModel& model);
  Status start_sequences();
  Status decode();

  const ProfiledFlags& flags_;
  const int threads_;
  const bool is_on_processor_;
  Rooflines rooflines_;
  Session& session_;
  std::vector<SequenceId> sequences_;  // that decode side by side: the session first
  ProfileCollector collector_;
  std::vector<int32_t> prompt_;
  Progress progress_;
};

// A model that is only looked at, on a machine by name or on the device that it would run on.
class Listed {
 public:
  static Result<Listed> open(const ProfiledFlags& flags);

  std::string name() const;
  const Machine& machine() const { return device_->machine(); }
  const ModelPlans& listing() const { return *listing_; }
  const GgufFile& file() const { return synthetic_ ? synthetic_->file() : *file_; }

 private:
  Status open_file(const ProfiledFlags& flags);

  std::unique_ptr<GgufFile> file_;
  std::unique_ptr<SyntheticModel> synthetic_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<ModelPlans> listing_;
};

}  // namespace smelt
