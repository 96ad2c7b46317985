#include "chat/tool_grammar.h"

#include <algorithm>

#include "chat/call_marks.h"
#include "chat/tool_arguments.h"
#include "grammar/free_text.h"
#include "grammar/json_schema.h"
#include "grammar/regular.h"

namespace smelt {
namespace {

using Expr = Grammar::Expr;
using Json = nlohmann::ordered_json;

// What a family writes for calls.
struct Calls {
  std::vector<Mark> openings;      // what begins a call, and the rest of it
  Expr between = Grammar::kEmpty;  // two calls
  bool text_may_follow = true;
  Expr bare = Grammar::kNothing;  // calls that begin an answer with a brace and nothing before
};

class Builder {
 public:
  Builder(const OutputFormat& format, const ToolRules& rules, std::vector<Tool> tools, const TokenTable& tokens)
      : format_(format), rules_(rules), tools_(std::move(tools)), tokens_(tokens) {}

  Result<Grammar> build() {
    if (format_.calls == CallStyle::harmony) {
      SMELT_CHECK(add_harmony());
      return std::move(grammar_);
    }
    SMELT_TRY(calls, calls_of_family());
    for (Mark& opening : calls.openings) opening.then = shared(opening.then);
    if (!rules_.must_call && !rules_.content) {
      grammar_.set_root(text_with_calls(calls));
      return std::move(grammar_);
    }
    SMELT_TRY(content, content_beside_calls(marks_in_content()));
    grammar_.set_root(calls_or(calls, content));
    return std::move(grammar_);
  }

 private:
  // --- parts

  Expr text(std::string_view text) { return grammar_.literal(text); }
  Expr mark(std::string_view name) { return grammar_.literal(spelling(name)); }
  Expr maybe_line() { return grammar_.choice({Grammar::kEmpty, text("\n")}); }

  // A mark as the vocabulary has it: a control token, text, or text around the control token that DeepSeek has for it.
  std::string spelling(std::string_view name) const {
    static constexpr std::string_view kInner = "｜DSML｜";
    std::string spelled = tokens_.spelling(name);
    const size_t at = spelled == name ? spelled.find(kInner) : spelled.npos;
    return at == spelled.npos ? spelled : spelled.replace(at, kInner.size(), tokens_.spelling(kInner));
  }

  // A mark that is a control token may not be spelled out in the text either: readers of the text would take it for
  // one.
  void add_mark(std::vector<Mark>& marks, std::string_view name, Expr then) const {
    const std::string spelled = spelling(name);
    marks.push_back({spelled, then});
    if (spelled != name) marks.push_back({std::string(name), Grammar::kNothing});
  }

  // `one` for each tool.
  template <class One>
  Result<Expr> any_tool(const One& one) {
    std::vector<Expr> all;
    for (const Tool& tool : tools_) {
      SMELT_TRY(arguments, one(tool));
      all.push_back(arguments);
    }
    return grammar_.choice(std::move(all));
  }

  // What is used in several places is written once.
  Expr shared(Expr part) {
    const int rule = grammar_.add_rule("call");
    grammar_.define(rule, part);
    return grammar_.use(rule);
  }

  Expr several(Expr one, Expr between) {
    if (!rules_.parallel) return one;
    return grammar_.sequence({one, grammar_.repeat(grammar_.sequence({between, one}), 0)});
  }

  // {"name": "f", "arguments": {...}}, and what may follow in it
  Result<Expr> json_call(JsonText& json, const char* key, Expr more = Grammar::kEmpty) {
    auto behind_name = any_tool([&](const Tool& tool) -> Result<Expr> {
      SMELT_TRY(arguments, object_of_arguments(json, tool));
      return grammar_.sequence({json.name(tool.name), json.comma(), json.entry(json.name(key), arguments)});
    });
    if (!behind_name) return behind_name;
    return json.list('{', grammar_.sequence({json.entry(json.name("name"), *behind_name), more}), '}');
  }

  // --- families

  Result<Calls> calls_of_family() {
    switch (format_.calls) {
      case CallStyle::json_in_tags: return json_in_tags();
      case CallStyle::glm: return glm();
      case CallStyle::qwen_coder: return functions("<tool_call>", "</tool_call>", "\n");
      case CallStyle::seed: return functions("<seed:tool_call>", "</seed:tool_call>", "");
      case CallStyle::llama3: return llama3();
      case CallStyle::mistral: return mistral();
      case CallStyle::deepseek: return deepseek();
      case CallStyle::gemma: return gemma();
      case CallStyle::kimi: return kimi();
      case CallStyle::command: return command();
      case CallStyle::dsml: return dsml();
      case CallStyle::none:
      case CallStyle::harmony: break;
    }
    return Error{"[tools] the template of this model has no format for calls of tools that is known here"};
  }

  Result<Calls> json_in_tags() {
    JsonText json(grammar_);
    SMELT_TRY(call, json_call(json, "arguments"));
    const Expr rest = grammar_.sequence({maybe_line(), call, maybe_line(), mark("</tool_call>")});
    return Calls{.openings = {{"<tool_call>", rest}}, .between = maybe_line()};
  }

  Result<Calls> glm() {
    const std::vector<std::string> marks = {"<tool_call>", "</tool_call>", "</arg_value>"};
    JsonText plain(grammar_, {.quote = "", .escapes = false, .marks = marks}), json(grammar_, {.marks = marks});
    const Expr line = maybe_line();
    const ArgumentTags tags{
        .before_name = mark("<arg_key>"),
        .before_value = grammar_.sequence({mark("</arg_key>"), line, mark("<arg_value>")}),
        .behind_value = grammar_.sequence({mark("</arg_value>"), line}),
    };
    auto call = any_tool([&](const Tool& tool) -> Result<Expr> {
      SMELT_TRY(arguments, tagged_arguments(plain, json, tool, tags));
      return grammar_.sequence({text(tool.name), line, arguments});
    });
    if (!call) return call.error();
    const Expr rest = grammar_.sequence({*call, mark("</tool_call>")});
    return Calls{.openings = {{"<tool_call>", rest}}, .between = maybe_line()};
  }

  // `line`: what stands around a value, within its tags.
  Result<Calls> functions(const std::string& begin, const std::string& end, const std::string& line) {
    const std::vector<std::string> marks = {begin, end, "<function=", "</function>", "<parameter=", "</parameter>"};
    JsonText plain(grammar_, {.quote = "", .escapes = false, .marks = marks}), json(grammar_, {.marks = marks});
    const ArgumentTags tags{.before_name = text("<parameter="),
                            .before_value = text(">" + line),
                            .behind_value = text(line + "</parameter>\n")};
    auto function = any_tool([&](const Tool& tool) -> Result<Expr> {
      SMELT_TRY(arguments, tagged_arguments(plain, json, tool, tags));
      return grammar_.sequence({text(tool.name + ">\n"), arguments, text("</function>")});
    });
    if (!function) return function.error();
    const Expr bare = shared(*function);
    const Expr tagged = grammar_.sequence({maybe_line(), text("<function="), bare, text("\n"), mark(end)});
    return Calls{.openings = {{begin, tagged}, {"<function=", bare}}, .between = maybe_line()};
  }

  Result<Calls> llama3() {
    JsonText json(grammar_);
    SMELT_TRY(call, json_call(json, "parameters"));
    const Expr calls = shared(several(shared(call), text("; ")));
    return Calls{.openings = {{"<|python_tag|>", calls}}, .text_may_follow = false, .bare = calls};
  }

  Result<Calls> mistral() {
    JsonText json(grammar_);
    const Expr id = to_grammar(grammar_, *read_regex("[A-Za-z0-9_-]{1,64}", false), plain_form);
    if (format_.is_older) {
      const Expr quoted_id = json.entry(json.name("id"), grammar_.sequence({text("\""), id, text("\"")}));
      SMELT_TRY(call, json_call(json, "arguments", grammar_.optional(grammar_.sequence({json.comma(), quoted_id}))));
      const Expr list = json.list('[', several(shared(call), json.comma()), ']');
      return Calls{.openings = {{"[TOOL_CALLS]", grammar_.sequence({grammar_.optional(text(" ")), list})}},
                   .text_may_follow = false};
    }
    const Expr with_id = grammar_.optional(grammar_.sequence({mark("[CALL_ID]"), id}));
    auto call = any_tool([&](const Tool& tool) -> Result<Expr> {
      SMELT_TRY(arguments, object_of_arguments(json, tool));
      return grammar_.sequence({text(tool.name), with_id, mark("[ARGS]"), arguments});
    });
    if (!call) return call.error();
    return Calls{.openings = {{"[TOOL_CALLS]", *call}}, .text_may_follow = false};
  }

  Result<Calls> deepseek() {
    static constexpr std::string_view kBegin = "<｜tool▁call▁begin｜>", kEnd = "<｜tool▁call▁end｜>",
                                      kSeparator = "<｜tool▁sep｜>", kAllBegin = "<｜tool▁calls▁begin｜>",
                                      kAllEnd = "<｜tool▁calls▁end｜>";
    JsonText json(grammar_, {.marks = {std::string(kBegin), std::string(kEnd), std::string(kSeparator)}});
    auto body = any_tool([&](const Tool& tool) -> Result<Expr> {
      SMELT_TRY(arguments, object_of_arguments(json, tool));
      if (!format_.is_older) return grammar_.sequence({text(tool.name), mark(kSeparator), arguments});
      return grammar_.sequence(
          {text("function"), mark(kSeparator), text(tool.name + "\n```json\n"), arguments, text("\n```")});
    });
    if (!body) return body.error();
    const Expr rest = shared(grammar_.sequence({*body, mark(kEnd)}));
    const Expr one = grammar_.sequence({mark(kBegin), rest});
    const Expr all = grammar_.sequence({several(one, maybe_line()), mark(kAllEnd)});
    return Calls{.openings = {{std::string(kAllBegin), all}, {std::string(kBegin), rest}}, .between = maybe_line()};
  }

  Result<Calls> gemma() {
    const std::string quote = "<|\"|>";
    JsonText json(grammar_, {.quote = tokens_.spelling(quote),
                             .escapes = false,
                             .quotes_names = false,
                             .spaces = false,
                             .marks = {quote, "<|tool_call>", "<tool_call|>"}});
    auto call = any_tool([&](const Tool& tool) -> Result<Expr> {
      SMELT_TRY(arguments, object_of_arguments(json, {tool.name, in_order_of_names(tool.parameters), tool.is_strict}));
      return grammar_.sequence({text(tool.name), arguments});
    });
    if (!call) return call.error();
    const Expr rest = grammar_.sequence({text("call:"), *call, mark("<tool_call|>")});
    return Calls{.openings = {{"<|tool_call>", rest}}};
  }

  Result<Calls> kimi() {
    static constexpr std::string_view kBegin = "<|tool_call_begin|>", kEnd = "<|tool_call_end|>",
                                      kArguments = "<|tool_call_argument_begin|>",
                                      kAllBegin = "<|tool_calls_section_begin|>",
                                      kAllEnd = "<|tool_calls_section_end|>";
    JsonText json(grammar_, {.marks = {std::string(kBegin), std::string(kEnd), std::string(kArguments)}});
    const Expr number = to_grammar(grammar_, *read_regex("[0-9]{1,4}", false), plain_form);
    auto body = any_tool([&](const Tool& tool) -> Result<Expr> {
      SMELT_TRY(arguments, object_of_arguments(json, tool));
      return grammar_.sequence({text("functions." + tool.name + ":"), number, mark(kArguments), arguments});
    });
    if (!body) return body.error();
    const Expr rest = shared(grammar_.sequence({*body, mark(kEnd)}));
    const Expr one = grammar_.sequence({mark(kBegin), rest});
    const Expr all = grammar_.sequence({several(one, Grammar::kEmpty), mark(kAllEnd)});
    return Calls{.openings = {{std::string(kAllBegin), all}, {std::string(kBegin), rest}}};
  }

  Result<Calls> command() {
    JsonText json(grammar_);
    const Expr id = grammar_.sequence(
        {text("\""), to_grammar(grammar_, *read_regex("[A-Za-z0-9_-]{1,64}", false), plain_form), text("\"")});
    auto behind_id = any_tool([&](const Tool& tool) -> Result<Expr> {
      SMELT_TRY(arguments, object_of_arguments(json, tool));
      return grammar_.sequence({json.entry(json.name("tool_name"), json.name(tool.name)), json.comma(),
                                json.entry(json.name("parameters"), arguments)});
    });
    if (!behind_id) return behind_id.error();
    const Expr with_id = grammar_.sequence({json.entry(json.name("tool_call_id"), id), json.comma()});
    const Expr call = json.list('{', grammar_.sequence({grammar_.optional(with_id), *behind_id}), '}');
    const Expr list = json.list('[', several(shared(call), json.comma()), ']');
    return Calls{.openings = {{"<|START_ACTION|>", grammar_.sequence({list, mark("<|END_ACTION|>")})}},
                 .text_may_follow = false};
  }

  Result<Calls> dsml() {
    static constexpr std::string_view kBegin = "<｜DSML｜function_calls>", kEnd = "</｜DSML｜function_calls>",
                                      kInvoke = "<｜DSML｜invoke", kInvokeEnd = "</｜DSML｜invoke>",
                                      kParameter = "<｜DSML｜parameter", kParameterEnd = "</｜DSML｜parameter>";
    std::vector<std::string> marks;
    for (std::string_view name : {kBegin, kEnd, kInvoke, kInvokeEnd, kParameter, kParameterEnd})
      marks.push_back(std::string(name));
    JsonText plain(grammar_, {.quote = "", .escapes = false, .marks = marks}), json(grammar_, {.marks = marks});
    const ArgumentTags tags{
        .before_name = grammar_.sequence({mark(kParameter), text(" name=\"")}),
        .before_value = text("\" string=\"false\">"),
        .behind_value = grammar_.sequence({mark(kParameterEnd), text("\n")}),
        .before_text = text("\" string=\"true\">"),
    };
    auto behind_invoke = any_tool([&](const Tool& tool) -> Result<Expr> {
      SMELT_TRY(arguments, tagged_arguments(plain, json, tool, tags));
      return grammar_.sequence({text(tool.name + "\">\n"), arguments});
    });
    if (!behind_invoke) return behind_invoke.error();
    const Expr one =
        shared(grammar_.sequence({mark(kInvoke), text(" name=\""), *behind_invoke, mark(kInvokeEnd), text("\n")}));
    const Expr all = grammar_.sequence({text("\n"), several(one, Grammar::kEmpty), mark(kEnd)});
    return Calls{.openings = {{std::string(kBegin), all}}, .between = text("\n")};
  }

  // --- whole answers

  Expr one_of(const std::vector<Mark>& openings) {
    std::vector<Expr> all;
    for (const Mark& opening : openings) all.push_back(grammar_.sequence({mark(opening.text), opening.then}));
    return grammar_.choice(std::move(all));
  }

  Expr text_with_calls(const Calls& calls) {
    const int answer = grammar_.add_rule("answer");
    Expr behind = Grammar::kEmpty;
    if (rules_.parallel && calls.text_may_follow) behind = grammar_.use(answer);
    if (rules_.parallel && !calls.text_may_follow) behind = grammar_.repeat(one_of(calls.openings), 0);
    std::vector<Mark> marks;
    for (const Mark& opening : calls.openings) add_mark(marks, opening.text, grammar_.sequence({opening.then, behind}));
    grammar_.define(answer, text_until(grammar_, marks, true, calls.bare));
    return grammar_.use(answer);
  }

  // What readers of an answer look for in its content.
  std::vector<std::string> marks_in_content() const {
    const CallMarks marks = call_marks(format_.calls);
    std::vector<std::string> all(marks.begins.begin(), marks.begins.end());
    all.insert(all.end(), marks.ends.begin(), marks.ends.end());
    all.insert(all.end(), marks.ignored.begin(), marks.ignored.end());
    if (!format_.think_end.empty()) all.insert(all.end(), {format_.think_begin, format_.think_end});
    return all;
  }

  // Nothing where there have to be calls.
  Result<Expr> content_beside_calls(std::vector<std::string> marks) {
    if (rules_.must_call) return Grammar::kNothing;
    JsonText json(grammar_, {.marks = std::move(marks)});
    if (rules_.content->is_null()) return json.object();
    return add_schema(json, *rules_.content, *rules_.content);
  }

  // No free text but thoughts.
  Expr calls_or(const Calls& calls, Expr content) {
    const Expr opened = several(one_of(calls.openings), calls.between);
    const Expr first = grammar_.choice({opened, calls.bare, content});
    if (format_.think_end.empty()) return first;
    const Expr lines = grammar_.choice({Grammar::kEmpty, text("\n"), text("\n\n")});
    std::vector<Mark> marks;
    add_mark(marks, format_.think_end, grammar_.sequence({lines, first}));
    for (const Mark& opening : calls.openings) add_mark(marks, opening.text, Grammar::kNothing);
    const Expr thoughts = text_until(grammar_, marks, false);
    if (rules_.starts_in_thoughts) return thoughts;
    return grammar_.choice({first, grammar_.sequence({mark(format_.think_begin), thoughts})});
  }

  // Messages one after the other, the last of which may be a call. The tokens that end an answer are none of a grammar.
  Status add_harmony() {
    static constexpr std::string_view kMarks[] = {"<|start|>", "<|channel|>", "<|constrain|>", "<|message|>",
                                                  "<|end|>",   "<|call|>",    "<|return|>"};
    const int answer = grammar_.add_rule("answer");
    std::vector<Mark> marks;
    for (std::string_view name : kMarks) {
      const bool goes_on = name == "<|end|>";
      add_mark(marks, name,
               goes_on ? grammar_.sequence({mark("<|start|>"), text("assistant"), grammar_.use(answer)})
                       : Grammar::kNothing);
    }
    const bool is_free = !rules_.must_call && !rules_.content;
    std::vector<Expr> channels{text("analysis")};
    if (is_free) channels.insert(channels.end(), {text("commentary"), text("final")});
    const Expr message = grammar_.sequence({mark("<|channel|>"), grammar_.choice(std::move(channels)),
                                            mark("<|message|>"), text_until(grammar_, marks, is_free)});
    SMELT_TRY(call, harmony_call({std::begin(kMarks), std::end(kMarks)}));
    std::vector<Expr> answers{message, call};
    if (rules_.content) {
      SMELT_TRY(content, content_beside_calls({std::begin(kMarks), std::end(kMarks)}));
      answers.push_back(grammar_.sequence({mark("<|channel|>"), text("final"), mark("<|message|>"), content}));
    }
    grammar_.define(answer, grammar_.choice(std::move(answers)));
    grammar_.set_root(grammar_.use(answer));
    return {};
  }

  // The recipient stands in either of two places.
  Result<Expr> harmony_call(std::vector<std::string> marks) {
    JsonText json(grammar_, {.marks = std::move(marks)});
    const Expr kind = grammar_.choice(
        {Grammar::kEmpty, text(" json"), grammar_.sequence({text(" "), mark("<|constrain|>"), text("json")})});
    const Expr channel = mark("<|channel|>");
    return any_tool([&](const Tool& tool) -> Result<Expr> {
      SMELT_TRY(arguments, object_of_arguments(json, tool));
      const Expr to = text(" to=functions." + tool.name);
      const Expr head = grammar_.choice(
          {grammar_.sequence({channel, text("commentary"), to}), grammar_.sequence({to, channel, text("commentary")})});
      return grammar_.sequence({head, kind, mark("<|message|>"), arguments});
    });
  }

  OutputFormat format_;
  ToolRules rules_;
  std::vector<Tool> tools_;
  const TokenTable& tokens_;
  Grammar grammar_;
};

}  // namespace

Result<Grammar> tool_grammar(const OutputFormat& format, const Json& tools, const ToolRules& rules,
                             const TokenTable& tokens) {
  SMELT_TRY(all, read_tools(tools));
  if (!rules.only.empty()) std::erase_if(all, [&](const Tool& tool) { return tool.name != rules.only; });
  if (all.empty())
    return Error{rules.only.empty() ? "[tools] there is no tool that could be called"
                                    : "[tools] '" + rules.only + "' is none of the tools"};
  return Builder(format, rules, std::move(all), tokens).build();
}

}  // namespace smelt
