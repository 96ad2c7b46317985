// LoadedModel: a model's weights in memory of a device, its plans, and the memory that they work in. It runs what it is
// told to run: whose tokens those are, and where their rows lie, is the engine's affair (engine.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "base/result.h"
#include "engine/engine_memory.h"
#include "engine/engine_options.h"
#include "engine/launch_times.h"
#include "engine/model_plans.h"
#include "engine/packed_weights.h"

namespace smelt {

struct EngineStats {
  double load_seconds = 0;
  double compile_seconds = 0;
  int kernels_compiled = 0;
  int kernels_cached = 0;                  // found on disk
  int kernels_per_token = 0;               // launches of one decode step
  int threads = 0, threads_per_token = 0;  // of a processor: those there are, and those that decode steps take now
  int64_t bytes_per_token = 0;             // weights that one decode step reads
  int64_t memory_bytes = 0;                // cache and working memory, without the weights
};

// What one kernel has cost so far, over all its launches.
struct KernelTime {
  std::string name;
  int64_t calls = 0;
  double seconds = 0;
  double bytes = 0, operations = 0;  // with DEBUG=1: what the kernel's formula asks for
};
// A line for DEBUG=1: time of a call, calls, time of all, GB/s, billions of operations a second, name.
std::string text_of(const KernelTime& time);

// What open() tells and asks while it works. Any of it may be empty.
struct OpenHooks {
  // What is being done ("loading", "compiling") and how much of it is done, from 0 to 1.
  std::function<void(const char* what, double fraction)> progress;
  // A sentence for the user about something that went otherwise than wished and is no error.
  std::function<void(const std::string& sentence)> note;
  // When it becomes true, open() ends with an Error: within milliseconds, or once the kernels that are being compiled
  // are finished.
  const std::atomic<bool>* cancel = nullptr;
};

class LoadedModel : public KernelSet {
 public:
  // Compiles the plans, or finds their kernels in the cache, and loads the weights. REQUIRES: `file` outlives it.
  static Result<std::unique_ptr<LoadedModel>> open(const GgufFile& file, const EngineOptions& options,
                                                   const OpenHooks& hooks);
  ~LoadedModel() override;
  LoadedModel(const LoadedModel&) = delete;
  LoadedModel& operator=(const LoadedModel&) = delete;

  const GgufFile& file() const { return file_; }
  const EngineOptions& options() const { return options_; }
  const Device& device() const { return *device_; }
  const ModelPlans& plans() const { return *plans_; }
  const Model& model() const { return plans_->model(); }
  const EngineLayout& layout() const { return plans_->layout(); }
  EngineStats stats() const;
  // Bytes of weights that so many generated tokens have to read together, see ModelPasses.
  double bytes_read(int64_t tokens) const { return plans_->passes().bytes_read(*generated_.front().run.pass, tokens); }
  EngineMemory& memory() { return memory_; }
  // Of all prompts so far. REQUIRES: EngineOptions::sums_inputs
  const InputSums& input_sums() const { return *sums_; }

  // --- runs. Their inputs are in memory(), where those of the next run may be written as soon as one is begun: a
  // device with a queue does them one behind the other, and returns before they are done.

  // Positions of the tokens of a run: all are below `end`.
  struct Extent {
    int64_t tokens = 0, first = 0, end = 0;
  };
  // Rows of the smallest plan for so many generated tokens. REQUIRES: tokens <= layout().batch
  int64_t batch_for(int64_t tokens) const;
  // `batch` generated tokens, with the logits of each.
  Status run_generated(int64_t batch, const Extent& extent, const std::atomic<bool>* cancel);
  // The same with tokens chosen by EngineMemory::choices(), which `chosen` gets once wait() for this run has
  // returned, as Bound::Chosen has them for `batch` rows. REQUIRES: chooses_tokens(), and the memory stays until then.
  Result<uint64_t> run_choosing(ChoiceKind kind, int64_t batch, const Extent& extent, std::span<int32_t> chosen);
  Status wait(uint64_t run) { return device_->wait(run); }
  bool chooses_tokens() const { return !choosing_[0].empty(); }
  // Parts of prompts, each in groups of kGroupSize tokens.
  Status run_prompt(const Extent& extent, const std::atomic<bool>* cancel);
  // The logits of one of these tokens, or of layout().head_rows.
  Status run_head(const Extent& extent, const std::atomic<bool>* cancel);
  Status run_wide_head(const Extent& extent, const std::atomic<bool>* cancel);
  // The head for multi-token prediction (EngineOptions::mtp) behind what the last run has left: `batch` of its rows,
  // with the logits of the first of them, or all tokens of run_prompt(), for their rows of the cache. What runs after
  // run_draft() finds what it has left, one row of it the first.
  Status run_draft(int64_t batch, const Extent& extent, const std::atomic<bool>* cancel);
  Status run_draft_prompt(const Extent& extent, const std::atomic<bool>* cancel);
  bool can_draft() const { return !drafts_.empty(); }
  // Until all that was begun is done. An Error if the device failed since the last call: then rows of the cache that
  // these runs were to write are undefined.
  Status finish();
  // The same, and the first `rows` rows of logits of the last run, valid until the next one.
  Result<std::span<const float>> read_logits(int64_t rows);
  // The hidden values behind the last layer that the last run has left, rows from `first` on; likewise. REQUIRES: it
  // is done, and was one of the model and not of a head for multi-token prediction.
  Result<std::span<const float>> read_hidden(int64_t first, int64_t rows);

  // --- what the plans are made of, and what they cost

  // Times every launch from now on. A clock is read between launches, so runs become a little slower.
  void start_profile();
  // Since start_profile(), costliest first.
  std::vector<KernelTime> profile() const;
  // Calls `observer` after each replay of a plan, with the time of every launch; see engine/profile.h.
  void observe(std::function<void(const RunTimes&)> observer);
  std::vector<PlanLaunch> launches(PlanKind plan) const override;
  std::vector<PlanSegment> segments(PlanKind plan) const override;
  // For each launch the tree of its kernel if weights of `role` lay in another layout. Empty if the schedule would be
  // another one. For trials: nothing is compiled.
  std::vector<Ref> trees_with(PlanKind plan, const std::string& role, WeightLayout layout) const;
  int kernel_count() const override { return plans_->kernel_count(); }
  KernelDescription kernel(int number) const override { return plans_->kernel(number); }
  KernelListing listing(int kernel, bool with_assembly) const override {
    return plans_->listing(kernel, with_assembly);
  }

 private:
  // A pass and its launches.
  struct Runnable {
    const Pass* pass = nullptr;
    Plan plan;
  };
  // As DecodePasses.
  struct DecodeRunnables {
    explicit DecodeRunnables(const DecodePasses& passes) : run{&passes.pass, {}} {
      if (passes.of_middle) of_middle = Runnable{&*passes.of_middle, {}};
      if (passes.of_long) of_long = Runnable{&*passes.of_long, {}};
      if (passes.of_wide) of_wide = Runnable{&*passes.of_wide, {}};
    }
    Runnable run;
    std::optional<Runnable> of_middle, of_long, of_wide;
  };

  LoadedModel(const GgufFile& file, const EngineOptions& options) : file_(file), options_(options) {}
  Status prepare(const OpenHooks& hooks);
  // What is known of a model on a device before anything large is done there.
  struct Start {
    PackPlan packing;
    int64_t arena_bytes = 0;
  };
  Result<Start> start();
  Result<Start> start_on(const std::string& device);
  Status open_device(const std::string& name);
  Status check_memory(const Start& start) const;
  int64_t fitting_context(int64_t bytes, int64_t arena_bytes) const;
  void name_passes();
  Status load(const PackPlan& packing);
  Status make_wide_head();
  void fill_stats();

  bool cancelled() const;
  Status not_cancelled() const;
  void note(const std::string& sentence) const;
  void report(const char* what, double done) const;

  std::vector<Runnable*> runnables();
  std::vector<const Pass*> passes();
  const Runnable* of_kind(PlanKind kind) const;                                 // null: there is none
  static const Runnable& of_kind(const DecodeRunnables& batch, PlanKind kind);  // REQUIRES: there is one
  Status run(std::optional<PlanKind> kind, const Runnable& runnable, const Extent& extent, int64_t symbol_tokens,
             const std::atomic<bool>* cancel, const ReadBack& read_back = {});
  std::span<const LaunchTimes::Work> work_of(const Runnable& runnable, const PassSymbols& symbols,
                                             const Extent& extent);

  const GgufFile& file_;
  const EngineOptions options_;
  const OpenHooks* hooks_ = nullptr;  // while opening
  std::shared_ptr<Device> device_;
  CompileStats compiled_before_;  // by the device, for whoever shares it
  std::unique_ptr<ModelPlans> plans_;
  PackedWeights packed_;
  std::vector<AdmittedMemory> admitted_;
  EngineMemory memory_;
  std::optional<InputSums> sums_;
  DeviceMemory wide_arena_;
  uint64_t last_run_ = 0;                   // that nobody has waited for; 0: none
  std::vector<DecodeRunnables> generated_;  // for batches of 1, 2, 4 ...
  Runnable prompt_, head_, wide_head_;
  std::optional<Runnable> long_prompt_;
  std::vector<Runnable> drafts_;  // for batches of 1, 2, 4 ..., if asked for
  Runnable draft_prompt_;
  std::vector<DecodeRunnables> choosing_[2];  // by ChoiceKind; for batches of 1, 2, 4 ..., if asked for
  Pass wide_head_pass_;
  EngineStats stats_;
  LaunchTimes times_;
  std::map<std::tuple<const Runnable*, int64_t, int64_t>, std::vector<LaunchTimes::Work>> work_;  // see work_of()
  std::function<void(const RunTimes&)> observer_;
};

}  // namespace smelt
