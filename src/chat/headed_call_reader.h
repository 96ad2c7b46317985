// A call whose arguments are a JSON object behind a head that names the tool:
//
//   f[CALL_ID]id[ARGS]{...}                                  Mistral's newer models; older ones write a list of objects
//   functions.f:0<|tool_call_argument_begin|>{...}           Kimi, where the head is the id of the call
//   function<｜tool▁sep｜>f\n```json\n{...}\n```             DeepSeek V3 and R1
//   f<｜tool▁sep｜>{...}                                     DeepSeek since V3.1
#pragma once

#include <memory>
#include <optional>

#include "chat/argument_text.h"
#include "chat/call_reader.h"

namespace smelt {

class HeadedCallReader : public CallReader {
 public:
  // The name and the id that a head gives; nothing: it is none.
  struct Head {
    std::string name, id = {};
  };
  using ReadHead = std::optional<Head> (*)(std::string_view head);

  // `may_lack_arguments`: then the head alone is a call.
  HeadedCallReader(ReadHead read_head, bool may_lack_arguments)
      : read_head_(read_head), may_lack_arguments_(may_lack_arguments) {}

  void take(char byte, Output& out) override;
  std::string end(TextEnd how, Output& out) override;

 private:
  const ReadHead read_head_;
  const bool may_lack_arguments_;
  std::string text_;  // the head, or what follows the arguments
  bool has_brace_ = false;
  std::optional<ArgumentText> arguments_;
};

std::optional<HeadedCallReader::Head> read_mistral_head(std::string_view head);
std::optional<HeadedCallReader::Head> read_kimi_head(std::string_view head);
std::optional<HeadedCallReader::Head> read_deepseek_head(std::string_view head);

}  // namespace smelt
