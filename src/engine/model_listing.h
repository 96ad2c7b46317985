// ModelListing: what a model becomes on a device, to be looked at. Plans are made as a session makes them, up to the
// text of their kernels; no weight is read, no memory of the device is taken and nothing runs, so the device may be one
// that is not here (runtime/machines.h).
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "engine/model_passes.h"
#include "engine/session.h"

namespace smelt {

class ModelListing : public KernelSet {
 public:
  // Of the options it takes those that decide what kernels are: context, types, chunk, layouts, tuned options.
  // An Error if the model cannot run, or when `cancel` became true in between. REQUIRES: file and device outlive it.
  static Result<std::unique_ptr<ModelListing>> make(const GgufFile& file, Device& device, const EngineOptions& options,
                                                    const std::atomic<bool>* cancel = nullptr);

  int kernel_count() const override { return compiler_.kernel_count(); }
  KernelDescription kernel(int number) const override;
  KernelListing listing(int number, bool with_assembly) const override;
  std::vector<PlanLaunch> launches(PlanKind plan) const override;

  const Model& model() const { return *model_; }
  int64_t context() const { return layout_.context; }
  int64_t prefill_tokens() const { return layout_.prefill_tokens; }  // most of one run
  // Launch values of a run that appends `tokens` behind `position` others.
  std::map<std::string, int64_t> symbols(int64_t tokens, int64_t position) const;

 private:
  ModelListing(const GgufFile& file, std::shared_ptr<const Model> model, Device& device, const EngineOptions& options,
               int64_t context);
  void make_passes(const LayoutChoice& layouts, const std::atomic<bool>* cancel);

  const GgufFile& file_;
  const std::shared_ptr<const Model> model_;
  Device& device_;
  const EngineOptions options_;
  const EngineLayout layout_;
  Compiler compiler_;
  std::unique_ptr<ModelPasses> passes_;
  Pass decode_, prefill_, head_;
};

}  // namespace smelt
