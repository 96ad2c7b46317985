// `smelt chat`: a conversation in the terminal, or the answer to one question.
#include "app/chat.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <optional>

#include "app/chat_commands.h"
#include "app/checks.h"
#include "app/command.h"
#include "app/input.h"
#include "app/interrupt.h"
#include "app/line_editor.h"
#include "app/printing.h"
#include "app/sampling_flags.h"
#include "app/sources.h"
#include "base/dirs.h"
#include "base/file.h"
#include "base/output_file.h"

namespace smelt {
namespace {

using nlohmann::ordered_json;

constexpr const char* kExamples =
    "Examples:\n"
    "  smelt chat -m model.gguf                          talk with it; /help lists the commands\n"
    "  smelt chat -m model.gguf \"Why is the sky blue?\"   one answer\n"
    "  smelt chat -m model.gguf -f notes.txt             with a file to talk about\n"
    "  git diff | smelt chat -m model.gguf \"review this\" with what another program says\n"
    "\nAnswers go to standard output, all else to standard error. Ctrl-C stops an answer.\n";

Result<ordered_json> parse_json(const std::string& text, const char* what) {
  ordered_json json = ordered_json::parse(text, nullptr, false);
  if (json.is_discarded()) return Error{std::string("[chat] ") + what + ": this is no JSON"};
  return json;
}

Result<ChatSettings> settings_of(const ChatFlags& flags, const ChatSession& session) {
  ChatSettings settings;
  SMELT_TRY(usual, session.default_sampling());
  SMELT_TRY(sampler, sampling_of(flags.sampling, std::move(usual), session.tokenizer()));
  settings.sampler = std::move(sampler);
  settings.max_tokens = flags.max_tokens;
  if (flags.system) settings.chat.messages.push_back({{"role", "system"}, {"content", *flags.system}});
  if (flags.variables) {
    SMELT_TRY(variables, parse_json(*flags.variables, "--template-vars"));
    if (!variables.is_object())
      return Error{"[chat] --template-vars: expected an object such as {\"enable_thinking\": false}"};
    settings.chat.variables = variables;
  }
  if (flags.tools_file) {
    SMELT_TRY(text, read_file(*flags.tools_file));
    SMELT_TRY(tools, parse_json(text, flags.tools_file->c_str()));
    if (!tools.is_array()) return Error{"[chat] " + *flags.tools_file + ": expected a list of tools"};
    settings.chat.tools = tools;
  }
  // The two names that templates have for it.
  if (flags.think || flags.no_think) {
    for (const char* name : {"enable_thinking", "thinking"}) settings.chat.variables[name] = flags.think;
  }
  return settings;
}

// Files and what a pipe says, before the question.
Result<std::string> attachments(const ChatFlags& flags) {
  std::string text;
  for (const std::string& path : flags.files) {
    if (path == "-") continue;
    SMELT_TRY(contents, read_stream(path));
    text += path + ":\n\n" + contents + (contents.ends_with('\n') ? "\n" : "\n\n");
  }
  SMELT_TRY(piped, piped_text());
  return text + piped;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

Result<StopReason> answer(Conversation& conversation) {
  conversation.screen.begin();
  auto generation = conversation.session.answer(
      conversation.settings, [&](const Output& part) { conversation.screen.show(part); }, interrupted());
  conversation.screen.end();
  if (!generation) return generation.error();
  conversation.last = *generation;
  ++conversation.answers;
  if (generation->stopped == StopReason::context_full) {
    conversation.screen.note("stopped: the context is full (/reset begins anew, -c makes it longer)");
  }
  SMELT_CHECK(all_printed());
  return generation->stopped;
}

void say(Conversation& conversation, const std::string& text) {
  conversation.settings.chat.messages.push_back({{"role", "user"}, {"content", text}});
}

// A message of one line, or of several: after "\" at the end of one, or between lines that have """.
LineEditor::Outcome read_message(LineEditor& editor, std::string& message) {
  constexpr std::string_view kQuotes = "\"\"\"";
  message.clear();
  bool quoted = false;
  while (true) {
    std::string line;
    const auto outcome = editor.read(message.empty() && !quoted ? "> " : ". ", line);
    if (outcome != LineEditor::Outcome::line) return outcome;
    const size_t quotes = line.find(kQuotes);
    if (quotes != line.npos) {
      line.erase(quotes, kQuotes.size());
      quoted = !quoted;
    }
    const bool goes_on = !quoted && line.ends_with('\\');
    if (goes_on) line.pop_back();
    message += line;
    if (!quoted && !goes_on) return outcome;
    message += '\n';
  }
}

std::string history_file() {
  const auto folder = cache_folder();
  return folder && !folder->empty() ? *folder + "/chat_history" : "";
}

// Says what went wrong and goes on: a message that could not be answered is taken back.
void answer_or_explain(Conversation& conversation) {
  const auto outcome = answer(conversation);
  forget_interrupt();
  if (outcome) return;
  conversation.screen.note(outcome.error().message);
  ordered_json& messages = conversation.settings.chat.messages;
  if (!messages.empty() && messages.back()["role"] == "user") messages.erase(messages.size() - 1);
}

Result<int> talk(Conversation& conversation, const std::string& attached) {
  show_conversation(conversation);
  LineEditor editor(history_file());
  std::string context = attached, message;
  int given_up = 0;
  while (true) {
    const auto outcome = read_message(editor, message);
    if (outcome == LineEditor::Outcome::end) return 0;
    if (outcome == LineEditor::Outcome::interrupted) {
      if (++given_up == 2) return 0;
      conversation.screen.note("Ctrl-C again, Ctrl-D or /exit leaves");
      continue;
    }
    given_up = 0;
    if (message.find_first_not_of(" \t\n") == message.npos) continue;
    if (message.starts_with('/')) {
      const CommandOutcome command = run_chat_command(conversation, message);
      if (command == CommandOutcome::leave) return 0;
      if (command == CommandOutcome::answer) answer_or_explain(conversation);
      continue;
    }
    say(conversation, std::exchange(context, "") + message);
    answer_or_explain(conversation);
  }
}

Result<int> answer_once(Conversation& conversation, const std::string& attached, const std::string& question) {
  const std::string gap = question.empty() || attached.empty() ? "" : "\n\n";
  say(conversation, attached + gap + question);
  SMELT_TRY(stopped, answer(conversation));
  return stopped == StopReason::interrupted ? kExitInterrupted : 0;
}

}  // namespace

Result<int> chat(const ChatFlags& flags) {
  SMELT_TRY(attached, attachments(flags));
  const std::string question = joined(flags.words);
  const bool has_terminal = ::isatty(STDIN_FILENO);
  if (!has_terminal && question.empty() && attached.empty()) {
    std::fprintf(stderr, "smelt: nothing to answer: give a question, a file with -f, or text on standard input\n");
    return kExitUsage;
  }
  std::optional<std::string> source;
  if (flags.template_file) {
    SMELT_TRY(text, read_file(*flags.template_file));
    source = text;
  }
  // Tried before the work.
  if (flags.save)
    if (const auto place = OutputFile::open(*flags.save); !place) return place.error();
  SMELT_TRY(session, ChatSession::open(flags.engine, source));
  if (flags.save) SMELT_CHECK(check_is_no_source("chat", *flags.save, files_of(session.file())));
  SMELT_TRY(settings, settings_of(flags, session));
  Conversation conversation{std::move(session), std::move(settings)};
  conversation.screen.fold_thoughts = flags.fold;
  if (conversation.session.chat_template().is_plain()) {
    conversation.screen.note("this model has no chat template: it goes on with what you write");
    if (conversation.settings.max_tokens < 0) conversation.settings.max_tokens = 256;
  }
  if (flags.load) SMELT_CHECK(load_conversation(conversation, *flags.load));
  SMELT_TRY(code, has_terminal && question.empty() ? talk(conversation, attached)
                                                   : answer_once(conversation, attached, question));
  if (flags.save) SMELT_CHECK(save_conversation(conversation, *flags.save));
  return code;
}

Action declare_chat(CLI::App& app) {
  const auto flags = std::make_shared<ChatFlags>();
  app.add_option("question", flags->words, "answer this and leave; without it, a conversation")->type_name("TEXT");
  app.add_option("-f,--file", flags->files, "files to talk about")->type_name("FILE")->allow_extra_args(false);
  app.add_option("--system", flags->system, "what the model is told first")->type_name("TEXT");
  declare_engine_flags(app, flags->engine);
  declare_sampling_flags(app, flags->sampling, "as the maker of the model recommends");
  declare_draft_flags(app, flags->engine.draft);
  app.add_option("-n,--predict", flags->max_tokens, "tokens of an answer at most; -1: until it ends")
      ->type_name("N")
      ->check(whole_number(-1, int64_t{1} << 30));
  app.add_flag("--think", flags->think, "let the model think first, where its template leaves the choice");
  app.add_flag("--no-think", flags->no_think, "do not let it");
  app.add_option("--load", flags->load, "go on with a conversation that --save or /save kept")->type_name("FILE");
  app.add_option("--save", flags->save,
                 "keep the conversation when it ends, and its part of the attention cache in FILE.cache, so that "
                 "--load computes only what is new")
      ->type_name("FILE");
  app.add_flag("--fold", flags->fold, "show one line in place of thoughts");
  app.add_option("--tools", flags->tools_file, "a JSON file with tools that the model may call")->type_name("FILE");
  app.add_option("--chat-template-file", flags->template_file, "a template in place of the model's own")
      ->type_name("FILE");
  app.add_option("--template-vars,--chat-template-kwargs", flags->variables, "variables of the template")
      ->type_name("JSON");
  app.footer(kExamples);
  return [flags] { return chat(*flags); };
}

}  // namespace smelt
