// Calls whose arguments stand between tags, each by itself:
//
//   f<arg_key>k</arg_key><arg_value>v</arg_value>                                         GLM
//   <function=f><parameter=k>v</parameter></function>                                     Qwen3-Coder, Seed
//   <｜DSML｜invoke name="f"><｜DSML｜parameter name="k" string="true">v</｜DSML｜parameter>...     DeepSeek V3.2
//
// They become one JSON object. A value that is a text is given out as it comes, another one when it is complete.
#pragma once

#include "chat/call_reader.h"
#include "chat/mark_finder.h"

namespace smelt {

class TaggedCallReader : public CallReader {
 public:
  // The tags of a style; empty: it has none there.
  struct Tags {
    std::string_view call_begin = {}, name_end = {};  // no begin: the name stands first
    std::string_view entry_begin = {}, key_end = {};
    std::string_view value_begin = {}, value_end = {};
    std::string_view call_end = {};
    bool has_attributes = false;  // names are those of a tag: <... name="f">
    bool has_lines = false;       // values stand in lines of their own
  };

  TaggedCallReader(const Tags& tags, const nlohmann::ordered_json& tools);

  void take(char byte, Output& out) override;
  std::string end(TextEnd how, Output& out) override;

 private:
  enum class State { outside, name, inside, key, before_value, value, no_call };

  std::vector<std::string_view> marks() const;
  void on_mark(std::string_view mark, Output& out);
  void on_byte(char byte, Output& out);
  void end_name(Output& out);
  void end_key(Output& out);
  void value_byte(char byte, Output& out);
  void give(char byte, Output& out);
  void give_line_end(Output& out);
  void end_value(bool is_closed, Output& out);
  void end_arguments(Output& out);

  const Tags tags_;
  const nlohmann::ordered_json& tools_;
  MarkFinder finder_;
  State state_;
  std::string all_;   // since the last call
  std::string part_;  // of the name, the key or a value that is no text
  std::string name_;
  bool has_arguments_ = false;
  // Of a value:
  bool is_text_ = false;
  int skips_line_ = 0;    // bytes of a line end that may still come first
  std::string line_end_;  // held back: the last one is not of the value
};

}  // namespace smelt
