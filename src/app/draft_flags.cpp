#include "app/draft_flags.h"

#include <CLI/CLI.hpp>

#include "app/checks.h"
#include "engine/lookup_drafter.h"
#include "engine/mtp_drafter.h"

namespace smelt {
namespace {

constexpr int64_t kMostDrafts = 63;
constexpr int64_t kUsualLookup = 7;  // costs nothing but the step that verifies it

std::unique_ptr<Drafter> drafter_of(const DraftFlags& flags, Session& session) {
  if (flags.mtp) return std::make_unique<MtpDrafter>(session, flags.least_probability);
  return std::make_unique<LookupDrafter>();
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
  app.add_option("--draft-max,--draft,--draft-n", flags.most, "tokens drafted for a step at most; 7 for --lookup")
      ->type_name("N")
      ->check(whole_number(1, kMostDrafts));
  app.add_option("--draft-min,--draft-n-min", flags.least, "drop drafts of fewer tokens; 0 without it")
      ->type_name("N")
      ->check(whole_number(0, kMostDrafts));
  app.add_option("--draft-p-min", flags.least_probability,
                 "end a draft before a token that is less likely than that; 0 without it")
      ->type_name("P")
      ->check(number(0, 1));
  app.add_flag("--draft-always", flags.always, "draft also where it was measured not to pay");
}

Status check_draft_flags(const DraftFlags& flags) {
  if (!flags.wanted() && (flags.most || flags.least || flags.always || flags.least_probability > 0))
    return Error{"[draft] --draft-max and its like need something that drafts: --mtp or --lookup"};
  if (flags.mtp && flags.lookup) return Error{"[draft] --mtp and --lookup: only one of them can draft"};
  if (flags.least && *flags.least > most_drafts(flags))
    return Error{"[draft] --draft-min " + std::to_string(*flags.least) + ": at most " +
                 std::to_string(most_drafts(flags)) + " tokens are drafted; see --draft-max"};
  return {};
}

int64_t most_drafts(const DraftFlags& flags) {
  if (!flags.wanted()) return 0;
  return flags.most.value_or(flags.mtp.value_or(kUsualLookup));
}

Result<std::unique_ptr<Speculation>> open_speculation(const DraftFlags& flags, Session& session) {
  if (!flags.wanted()) return std::unique_ptr<Speculation>();
  const DraftOptions options{.most = most_drafts(flags), .least = flags.least.value_or(0), .adaptive = !flags.always};
  return std::make_unique<Speculation>(drafter_of(flags, session), options);
}

}  // namespace smelt
