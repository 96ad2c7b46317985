// The commands of a conversation: lines that begin with a slash.
#pragma once

#include <string>
#include <string_view>

#include "app/chat_screen.h"
#include "app/chat_session.h"

namespace smelt {

struct Conversation {
  ChatSession session;
  ChatSettings settings;
  ChatScreen screen;
  Generation last = {};
  int64_t answers = 0;
};

enum class CommandOutcome { done, answer, leave };  // answer: the model is to go on

// Messages, tools and settings to a file, and what the context holds to another one beside it ("talk.json.cache").
Status save_conversation(Conversation& conversation, const std::string& path);
// The same from a file that save_conversation() wrote, or any list of messages. Without the other file, or where that
// cannot serve, the conversation is computed anew.
Status load_conversation(Conversation& conversation, const std::string& path);
// What was said so far, on the screen.
void show_conversation(Conversation& conversation);

// "/set temp 0.5". What is wrong with a command is said on the screen.
CommandOutcome run_chat_command(Conversation& conversation, std::string_view line);

}  // namespace smelt
