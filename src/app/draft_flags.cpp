#include "app/draft_flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "app/checks.h"
#include "base/printable.h"
#include "engine/lookup_drafter.h"
#include "engine/model_drafter.h"
#include "engine/mtp_drafter.h"

namespace smelt {
namespace {

constexpr int64_t kMostDrafts = 63;
constexpr int64_t kUsualLookup = 7;  // costs nothing but the step that verifies it
constexpr int64_t kUsualModel = 3;

std::unique_ptr<Drafter> drafter_of(const DraftFlags& flags, Engine& engine, SequenceId sequence, DraftModel model) {
  const DraftChoice choice(flags.least_probability, flags.draw);
  if (flags.mtp) return std::make_unique<MtpDrafter>(engine, sequence, choice);
  if (flags.lookup) return std::make_unique<LookupDrafter>();
  return std::make_unique<ModelDrafter>(std::move(model.file), std::move(model.session), choice);
}

DraftOptions draft_options(const DraftFlags& flags) {
  return {.most = most_drafts(flags), .least = flags.least.value_or(0), .adaptive = !flags.always};
}

}  // namespace

void declare_draft_flags(CLI::App& app, DraftFlags& flags) {
  app.add_flag("--lookup", flags.lookup,
               "draft what came the last time that the end of the text occurred in it; the text stays the same");
  app.add_option("--mtp", flags.mtp,
                 "draft up to N tokens with the model's own head for multi-token prediction, where its file has one; "
                 "the text stays the same")
      ->type_name("N")
      ->check(whole_number(1, kMostDrafts));
  app.add_option("--model-draft", flags.model,
                 "draft with this smaller model of the same vocabulary; the text stays the same (also spelled -md)")
      ->type_name("MODEL")
      ->check(not_empty());
  app.add_option("--draft-max,--draft,--draft-n", flags.most,
                 "tokens drafted for a step at most; without it 7 for --lookup, 3 for --model-draft")
      ->type_name("N")
      ->check(whole_number(1, kMostDrafts));
  app.add_option("--draft-min,--draft-n-min", flags.least, "drop drafts of fewer tokens; 0 without it")
      ->type_name("N")
      ->check(whole_number(0, kMostDrafts));
  app.add_option("--draft-p-min", flags.least_probability,
                 "end a draft before a token that is less likely than that; 0 without it")
      ->type_name("P")
      ->check(number(0, 1));
  app.add_flag("--draft-draw", flags.draw,
               "draw drafts as the text is sampled, and keep them by the rejection rule: more of them are kept, and "
               "texts are as likely as without drafts, but a seed gives another text");
  app.add_flag("--draft-always", flags.always, "draft also where it was measured not to pay");
}

Status check_draft_flags(const DraftFlags& flags) {
  if (!flags.wanted() && (flags.most || flags.least || flags.always || flags.draw || flags.least_probability > 0))
    return Error{"[draft] --draft-max and its like need something that drafts: --mtp, --lookup or --model-draft"};
  if (flags.mtp.has_value() + flags.lookup + !flags.model.empty() > 1)
    return Error{"[draft] --mtp, --lookup and --model-draft: only one of them can draft"};
  if (flags.draw && flags.lookup) return Error{"[draft] --draft-draw: --lookup has nothing to draw from; leave it out"};
  if (flags.least && *flags.least > most_drafts(flags))
    return Error{"[draft] --draft-min " + std::to_string(*flags.least) + ": at most " +
                 std::to_string(most_drafts(flags)) + " tokens are drafted; see --draft-max"};
  return {};
}

int64_t most_drafts(const DraftFlags& flags) {
  if (!flags.wanted()) return 0;
  return flags.most.value_or(flags.mtp.value_or(flags.lookup ? kUsualLookup : kUsualModel));
}

Status check_same_tokens(const Tokenizer& drafts, const Tokenizer& verifies, const std::string& file) {
  // Vocabularies may be filled up to different sizes.
  const int32_t shared = std::min(drafts.size(), verifies.size());
  for (int32_t id = 0; id < shared; ++id)
    if (drafts.piece(id) != verifies.piece(id))
      return Error{"[draft] " + file + ": token " + std::to_string(id) + " is \"" + printable(drafts.piece(id), 40) +
                   "\" there and \"" + printable(verifies.piece(id), 40) +
                   "\" in the model that it drafts for; choose one with the same vocabulary"};
  return {};
}

std::unique_ptr<Speculation> make_speculation(const DraftFlags& flags, Session& session, DraftModel model) {
  if (!flags.wanted()) return nullptr;
  return std::make_unique<Speculation>(drafter_of(flags, session.engine(), session.sequence(), std::move(model)),
                                       draft_options(flags));
}

Result<std::unique_ptr<BatchSpeculation>> make_speculation(const DraftFlags& flags, Engine& engine, DraftModel model) {
  if (!flags.wanted()) return std::unique_ptr<BatchSpeculation>();
  std::vector<std::unique_ptr<Drafter>> drafters;
  for (SequenceId sequence = 0; sequence < engine.most_sequences(); ++sequence) {
    DraftModel one{model.file, nullptr};
    if (sequence + 1 == engine.most_sequences()) {
      one.session = std::move(model.session);
    } else if (model.session) {
      SMELT_TRY(another, model.session->another());
      one.session = std::move(another);
    }
    drafters.push_back(drafter_of(flags, engine, sequence, std::move(one)));
  }
  return std::make_unique<BatchSpeculation>(std::move(drafters), draft_options(flags), engine.loaded().layout().batch);
}

}  // namespace smelt
