// ModelPlans: what a model becomes on a device, up to the text of its kernels: the passes over it, in the layouts and
// with the options that were found for the machine. A loaded model runs them (loaded_model.h). To make them no weight
// is read, no memory of the device is taken and nothing runs, so that they can be looked at for a device that is not
// here (runtime/machines.h).
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine_options.h"
#include "engine/model_passes.h"
#include "engine/profile.h"

namespace smelt {

class ModelPlans : public KernelSet {
 public:
  // An Error if the model cannot run, if the options are not possible for it, or when `cancel` became true in between.
  // REQUIRES: file and device outlive it.
  static Result<std::unique_ptr<ModelPlans>> make(const GgufFile& file, Device& device, const EngineOptions& options,
                                                  const std::atomic<bool>* cancel = nullptr);

  const Model& model() const { return *model_; }
  const EngineLayout& layout() const { return layout_; }
  // As it would be with another context.
  EngineLayout layout_with(int64_t context) const { return layout_of(*model_, device_.machine(), options_, context); }

  // What they are made of.
  Compiler& compiler() { return compiler_; }
  const ModelPasses& passes() const { return *passes_; }
  const std::vector<Pass>& generated() const { return generated_; }  // for batches of 1, 2, 4 ... tokens
  size_t decode_number() const;                                      // of these, the one for a token of each sequence
  const Pass& prompt() const { return prompt_; }
  const Pass& head() const { return head_; }  // of one row
  // Of the head for multi-token prediction, where the options ask for it.
  const std::vector<Pass>& drafts() const { return drafts_; }  // for batches of 1, 2, 4 ... tokens
  const Pass& draft_prompt() const { return draft_prompt_; }
  // Behind which tokens are chosen, where the options ask for it: for batches of 1, 2, 4 ... tokens.
  const std::vector<Pass>& choosing(ChoiceKind kind) const { return choosing_[static_cast<size_t>(kind)]; }

  int kernel_count() const override { return compiler_.kernel_count(); }
  KernelDescription kernel(int number) const override;
  KernelListing listing(int number, bool with_assembly) const override;
  std::vector<PlanLaunch> launches(PlanKind plan) const override;
  std::vector<PlanSegment> segments(PlanKind plan) const override;
  // Launch values of a run that appends `tokens` behind `position` others.
  std::map<std::string, int64_t> symbols(int64_t tokens, int64_t position) const;

 private:
  ModelPlans(const GgufFile& file, std::shared_ptr<const Model> model, Device& device, const EngineOptions& options,
             int64_t context);
  const Pass& of_kind(PlanKind plan) const;
  bool chooses_tokens() const;
  void make_passes(const LayoutChoice& layouts, const std::atomic<bool>* cancel);

  const GgufFile& file_;
  const std::shared_ptr<const Model> model_;
  Device& device_;
  const EngineOptions options_;
  static EngineLayout layout_of(const Model& model, const Machine& machine, const EngineOptions& options,
                                int64_t context);

  EngineLayout layout_;
  Compiler compiler_;
  std::unique_ptr<ModelPasses> passes_;
  std::vector<Pass> generated_;
  Pass prompt_, head_, draft_prompt_;
  std::vector<Pass> drafts_, choosing_[2];
};

}  // namespace smelt
