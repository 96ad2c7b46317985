#include "app/viz/what_if.h"

#include <algorithm>

#include "app/interrupt.h"
#include "app/random_tokens.h"
#include "app/viz/record_kernels.h"
#include "engine/tune_child.h"
#include "engine/tune_trial.h"
#include "engine/tuned_options.h"
#include "runtime/devices.h"

namespace smelt {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kDecoded = 2;

Result<KernelOpts> options_in(const Json& texts, size_t nests) {
  if (!texts.is_array() || texts.size() != nests)
    return Error{"options: " + std::to_string(nests) + " lists are needed, one for each nest"};
  KernelOpts out;
  for (const Json& text : texts) {
    if (!text.is_string()) return Error{"options: a list is a text, such as \"local(o1,16) unroll(r1,4)\""};
    SMELT_TRY(opts, parse_opts(text.get<std::string>()));
    out.push_back(std::move(opts));
  }
  return out;
}

}  // namespace

WhatIf::WhatIf(Session& session, const EngineFlags& flags, int64_t prompt_tokens)
    : session_(session),
      flags_(flags),
      tokens_(random_tokens(session,
                            std::min(std::max<int64_t>(prompt_tokens, 2), session.context() - kDecoded) + kDecoded)) {}

Json WhatIf::answer(const std::string& question) {
  const Json asked = Json::parse(question, nullptr, false);
  const auto answer = try_out(asked);
  return answer ? *answer : Json{{"refused", answer.error().message}};
}

Result<Json> WhatIf::try_out(const Json& question) {
  if (!question.is_object() || !question.contains("kernel") || !question["kernel"].is_string())
    return Error{"the question names no kernel"};
  const std::string name = question["kernel"];
  const int kernel = number_of(name);
  if (kernel < 0) return Error{name + ": the model has no such kernel"};
  SMELT_TRY(opts, options_in(question.value("options", Json()), session_.loaded().kernel(kernel).tree->src.size()));
  SMELT_TRY(plan, make_ready(kernel));
  const auto try_it = [&] { return try_here(plan, kernel, opts); };
  // A GPU belongs to one process, this one.
  const bool forks = is_processor(session_.loaded().device().name());
  SMELT_TRY(text, forks ? text_from_child(try_it) : try_it());
  return Json::parse(text);
}

// Leaves other inputs of the kernel behind, and nodes; in a child these are its own.
Result<std::string> WhatIf::try_here(PlanKind plan, int kernel, const KernelOpts& opts) {
  SMELT_TRY(device,
            open_device(
                {.name = name_of(session_.loaded().device(), flags_), .threads = flags_.threads, .use_cache = false}));
  const PlanSites sites(session_, plan, times_[plan].symbols(), *device,
                        static_cast<double>(session_.stats().bytes_per_token));
  const TuneSite site = sites.site(kernel);
  const KernelOpts now = session_.loaded().kernel(kernel).opts;
  SMELT_TRY(found, try_options({.site = site, .device = *device, .now = now, .then = opts, .cancel = &interrupted()}));
  Json out = {{"before_us", found.before_us},
              {"after_us", found.after_us},
              {"judged", found.judged_elements},
              {"bytes", found.compared_bytes}};
  Assembly assembly = device->linked_assembly(found.source);
  out.update(record_texts({std::move(found.program), std::move(found.source), std::move(assembly)}, device->machine()));
  return out.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Runs a plan that launches the kernel, so that its inputs are in place.
Result<PlanKind> WhatIf::make_ready(int kernel) {
  for (PlanKind plan : kPlanKinds) {
    const std::vector<PlanLaunch> launches = session_.loaded().launches(plan);
    if (std::none_of(launches.begin(), launches.end(), [&](const PlanLaunch& l) { return l.kernel == kernel; }))
      continue;
    SMELT_CHECK(replay(plan));
    if (times_[plan].empty()) continue;
    return plan;
  }
  return Error{"no plan that runs here launches this kernel"};
}

Status WhatIf::replay(PlanKind plan) {
  session_.loaded().observe([this](const RunTimes& run) { times_[run.plan].add(run); });
  session_.reset();
  Status done;
  const auto prompt = std::span(tokens_).first(tokens_.size() - kDecoded);
  if (const auto logits = session_.append(prompt, &interrupted()); !logits) done = logits.error();
  for (int i = 0; i < kDecoded && done && plan == PlanKind::Decode; ++i)
    if (const auto logits = session_.extend(tokens_[prompt.size() + static_cast<size_t>(i)], &interrupted()); !logits)
      done = logits.error();
  session_.loaded().observe({});
  return done;
}

int WhatIf::number_of(const std::string& kernel) const {
  for (int i = 0; i < session_.loaded().kernel_count(); ++i)
    if (session_.loaded().kernel(i).name == kernel) return i;
  return -1;
}

}  // namespace smelt
