#include "app/chat_commands.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <utility>

#include "app/sources.h"
#include "app/statistics.h"
#include "base/file.h"
#include "base/progress.h"
#include "chat/saved_conversation.h"

namespace smelt {
namespace {

using nlohmann::ordered_json;

constexpr const char* kHelp =
    "/help              this list\n"
    "/reset             begin anew; the system prompt stays\n"
    "/system [TEXT]     show or set the system prompt\n"
    "/set [NAME VALUE]  show or change: temp, top-k, top-p, min-p, repeat-penalty, seed, predict,\n"
    "                   fold (thoughts), or a variable of the template such as enable_thinking\n"
    "/thoughts          what the last answer's folded thoughts were\n"
    "/retry             another answer to the last message\n"
    "/tools [FILE]      show the tools, or take those of a JSON file\n"
    "/result TEXT       what the last call of a tool gave\n"
    "/save FILE         keep the conversation, and its cache in FILE.cache;  /load FILE goes on with it\n"
    "/stats             what the last answer took\n"
    "/exit              leave; Ctrl-D does it, too\n"
    "A line that ends with \\ goes on in the next one, and so does \"\"\" until the next \"\"\". Ctrl-C stops an "
    "answer.";

std::string_view take_word(std::string_view& rest) {
  const size_t begin = std::min(rest.find_first_not_of(' '), rest.size());
  const size_t end = std::min(rest.find(' ', begin), rest.size());
  const std::string_view word = rest.substr(begin, end - begin);
  rest = rest.substr(std::min(rest.find_first_not_of(' ', end), rest.size()));
  return word;
}

// A field of a message that may be missing, or no string: empty then.
std::string field(const ordered_json& message, const char* name) {
  return message.contains(name) && message[name].is_string() ? message[name].get<std::string>() : "";
}

bool is_system(const ordered_json& messages) { return !messages.empty() && field(messages[0], "role") == "system"; }

void set_system(ordered_json& messages, std::string_view text) {
  if (is_system(messages)) messages.erase(messages.begin());
  if (!text.empty())
    messages.insert(messages.begin(), ordered_json{{"role", "system"}, {"content", std::string(text)}});
}

void reset(ordered_json& messages) {
  const ordered_json system = is_system(messages) ? messages[0] : ordered_json();
  messages = ordered_json::array();
  if (!system.is_null()) messages.push_back(system);
}

std::string number_text(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", number);
  return text;
}

void show_settings(Conversation& conversation) {
  const SamplerOptions& sampler = conversation.settings.sampler;
  conversation.screen.note("temp " + number_text(sampler.temperature) + ", top-k " + std::to_string(sampler.top_k) +
                           ", top-p " + number_text(sampler.top_p) + ", min-p " + number_text(sampler.min_p) +
                           ", repeat-penalty " + number_text(sampler.repeat_penalty) + ", seed " +
                           std::to_string(sampler.seed) + ", predict " +
                           std::to_string(conversation.settings.max_tokens) + ", fold " +
                           (conversation.screen.fold_thoughts ? "on" : "off"));
  const ordered_json& variables = conversation.settings.chat.variables;
  if (!variables.empty()) conversation.screen.note("variables of the template " + variables.dump());
}

// A setting of numbers; false where there is none with that name or the value is not for it.
bool set_number(Conversation& conversation, std::string_view name, double value) {
  SamplerOptions& sampler = conversation.settings.sampler;
  const auto within = [&](double low, double high) { return value >= low && value <= high; };
  if (name == "temp" && within(0, 100)) return sampler.temperature = static_cast<float>(value), true;
  if (name == "top-k" && within(0, INT32_MAX)) return sampler.top_k = static_cast<int32_t>(value), true;
  if (name == "top-p" && within(0, 1)) return sampler.top_p = static_cast<float>(value), true;
  if (name == "min-p" && within(0, 1)) return sampler.min_p = static_cast<float>(value), true;
  if (name == "repeat-penalty" && within(0.01f, 100)) return sampler.repeat_penalty = static_cast<float>(value), true;
  if (name == "seed" && within(0, 9e15)) return sampler.seed = static_cast<uint64_t>(value), true;
  if (name == "predict" && within(-1, 1 << 30))
    return conversation.settings.max_tokens = static_cast<int64_t>(value), true;
  return false;
}

std::optional<double> number_of(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != 0) return std::nullopt;
  return value;
}

void set(Conversation& conversation, std::string_view rest) {
  const std::string name(take_word(rest)), value(rest);
  static constexpr std::string_view kNumbers[] = {"temp",           "top-k", "top-p",  "min-p",
                                                  "repeat-penalty", "seed",  "predict"};
  if (name.empty()) return show_settings(conversation);
  if (name == "fold") {
    conversation.screen.fold_thoughts = value != "off" && value != "false" && value != "0";
  } else if (std::find(std::begin(kNumbers), std::end(kNumbers), name) != std::end(kNumbers)) {
    const std::optional<double> number = number_of(value);
    if (!number || !set_number(conversation, name, *number))
      conversation.screen.note(name + ": '" + value + "' is no value for it");
  } else {
    ordered_json parsed = ordered_json::parse(value, nullptr, false);
    conversation.settings.chat.variables[name] = parsed.is_discarded() ? ordered_json(value) : parsed;
  }
}

CommandOutcome retry(Conversation& conversation) {
  ordered_json& messages = conversation.settings.chat.messages;
  while (!messages.empty() && field(messages.back(), "role") == "assistant") messages.erase(messages.size() - 1);
  if (messages.empty() || (messages.size() == 1 && is_system(messages))) {
    conversation.screen.note("there is nothing to answer yet");
    return CommandOutcome::done;
  }
  ++conversation.settings.sampler.seed;
  return CommandOutcome::answer;
}

std::string cache_file_of(const std::string& path) { return path + ".cache"; }

std::string saved_note(const std::string& path) {
  std::error_code missing;
  const auto bytes = std::filesystem::file_size(cache_file_of(path), missing);
  return "kept in " + path + (missing ? "" : ", with " + bytes_text(bytes) + " of cache in " + cache_file_of(path));
}

void load_context(Conversation& conversation, const std::string& path) {
  if (::access(path.c_str(), F_OK) != 0) return;
  if (const Status loaded = conversation.session.load_context(path); !loaded)
    conversation.screen.note(loaded.error().message + "; what was said is computed anew");
}

Status tools(Conversation& conversation, const std::string& path) {
  ordered_json& list = conversation.settings.chat.tools;
  if (!path.empty()) {
    SMELT_TRY(text, read_file(path));
    SMELT_TRY(read, read_tools(text, path));
    list = std::move(read);
  }
  if (list.empty()) conversation.screen.note("no tools; /tools FILE takes those of a JSON file");
  for (const ordered_json& tool : list) conversation.screen.note(tool.dump());
  return {};
}

CommandOutcome result(Conversation& conversation, std::string_view text) {
  ordered_json message = {{"role", "tool"}, {"content", std::string(text)}};
  const ordered_json& messages = conversation.settings.chat.messages;
  size_t results = 0;
  for (size_t i = messages.size(); i-- > 0; ++results) {
    if (field(messages[i], "role") == "tool") continue;
    if (!messages[i].contains("tool_calls") || results >= messages[i]["tool_calls"].size()) break;
    const ordered_json& calls = messages[i]["tool_calls"];
    message["tool_call_id"] = field(calls[results], "id");
    message["name"] = calls[results]["function"]["name"];
    const bool is_last = results + 1 == calls.size();
    conversation.settings.chat.messages.push_back(message);
    return is_last ? CommandOutcome::answer : CommandOutcome::done;
  }
  conversation.screen.note("no call of a tool waits for a result");
  return CommandOutcome::done;
}

void show_stats(Conversation& conversation) {
  if (conversation.answers > 0) {
    conversation.screen.note(prompt_line(conversation.last));
    conversation.screen.note(
        decode_line(conversation.session.stats(), conversation.last, conversation.session.cache_reads()));
  }
  conversation.screen.note("context " + std::to_string(conversation.session.position()) + " of " +
                           std::to_string(conversation.session.context()) + " tokens");
}

void show_thoughts(Conversation& conversation) {
  const ordered_json& messages = conversation.settings.chat.messages;
  const std::string thoughts = messages.empty() ? "" : field(messages.back(), "reasoning_content");
  conversation.screen.note(thoughts.empty() ? "the last answer came without thoughts" : thoughts);
}

}  // namespace

void show_conversation(Conversation& conversation) {
  for (const ordered_json& message : conversation.settings.chat.messages) {
    const std::string role = field(message, "role"), text = field(message, "content");
    if (role == "user") conversation.screen.note("> " + text);
    if (role != "assistant") continue;
    conversation.screen.begin();
    conversation.screen.show({.reasoning = "", .content = text, .calls = {}});
    conversation.screen.end();
  }
}

Status save_conversation(Conversation& conversation, const std::string& path) {
  SMELT_CHECK(check_is_no_source("chat", path, files_of(conversation.session.file())));
  const Chat& chat = conversation.settings.chat;
  const SamplerOptions& sampler = conversation.settings.sampler;
  const ordered_json json = {{"messages", chat.messages},
                             {"tools", chat.tools},
                             {"chat_template_kwargs", chat.variables},
                             {"temperature", sampler.temperature},
                             {"top_k", sampler.top_k},
                             {"top_p", sampler.top_p},
                             {"min_p", sampler.min_p},
                             {"repeat_penalty", sampler.repeat_penalty}};
  SMELT_CHECK(publish_file(path, json.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n"));
  return conversation.session.save_context(cache_file_of(path));
}

Status load_conversation(Conversation& conversation, const std::string& path) {
  static constexpr std::pair<const char*, std::string_view> kNumbers[] = {{"temperature", "temp"},
                                                                          {"top_k", "top-k"},
                                                                          {"top_p", "top-p"},
                                                                          {"min_p", "min-p"},
                                                                          {"repeat_penalty", "repeat-penalty"}};
  SMELT_TRY(text, read_file(path));
  SMELT_TRY(saved, read_conversation(text, path));
  for (const auto& [key, name] : kNumbers)
    if (saved.numbers.contains(key) && !set_number(conversation, name, saved.numbers[key]))
      return Error{"[chat] " + path + ": " + key + " is " + number_text(saved.numbers[key]) +
                   ", which is no value for it"};
  Chat& chat = conversation.settings.chat;
  chat.messages = std::move(saved.messages);
  if (saved.tools) chat.tools = std::move(*saved.tools);
  if (saved.variables) chat.variables = std::move(*saved.variables);
  load_context(conversation, cache_file_of(path));
  return {};
}

CommandOutcome run_chat_command(Conversation& conversation, std::string_view line) {
  std::string_view rest = line;
  const std::string_view name = take_word(rest);
  ordered_json& messages = conversation.settings.chat.messages;
  const auto report = [&](const Status& status) {
    if (!status) conversation.screen.note(status.error().message);
  };
  if (name == "/exit" || name == "/quit" || name == "/bye") return CommandOutcome::leave;
  if (name == "/retry") return retry(conversation);
  if (name == "/result") return result(conversation, rest);
  if (name == "/help" || name == "/?") {
    conversation.screen.note(kHelp);
  } else if (name == "/reset" || name == "/clear") {
    reset(messages);
  } else if (name == "/system") {
    if (!rest.empty()) set_system(messages, rest);
    conversation.screen.note(is_system(messages) ? field(messages[0], "content") : "no system prompt");
  } else if (name == "/set") {
    set(conversation, rest);
  } else if (name == "/tools") {
    report(tools(conversation, std::string(rest)));
  } else if (name == "/save") {
    const std::string path(rest);
    const Status saved =
        path.empty() ? Status(Error{"/save needs the name of a file"}) : save_conversation(conversation, path);
    report(saved);
    if (saved) conversation.screen.note(saved_note(path));
  } else if (name == "/load") {
    const Status loaded = rest.empty() ? Status(Error{"/load needs the name of a file"})
                                       : load_conversation(conversation, std::string(rest));
    report(loaded);
    if (loaded) show_conversation(conversation);
  } else if (name == "/thoughts") {
    show_thoughts(conversation);
  } else if (name == "/stats") {
    show_stats(conversation);
  } else {
    conversation.screen.note(std::string(name) + " is unknown; /help lists the commands");
  }
  return CommandOutcome::done;
}

}  // namespace smelt
