#pragma once

#include <string>
#include <vector>

namespace tapegrad::data {

using Parts = std::vector<std::string>;

// "äöü" and an emoji, in JSON whose text has marks, quotes, braces and escapes.
inline const std::string kHard =
    R"({"a": "</tool_call> \"} äöü 😀 [TOOL_CALLS] \\", "b": {"c": [1, -2.5e3, "}]"]}})";

// A call of f with these arguments, as the format writes it, and the arguments as JSON.
struct Written {
  std::string format, text, arguments;
};

inline std::vector<Written> calls_of_all_formats() {
  const std::string hermes =
      "<tool_call>\n{\"name\": \"f\", \"arguments\": " + kHard + "}\n</tool_call>";
  const std::string harmony = "commentary to=functions.f <|constrain|>json<|message|>";
  return {
      {"hermes", hermes, kHard},
      {"hermes", R"(<tool_call>{"arguments":{ },"name":"f"}</tool_call>)", "{ }"},
      {"hermes", R"(<tool_call>[{"name":"f"}]</tool_call>)", "{}"},
      {"llama3", R"({"name": "f", "parameters": )" + kHard + "}", kHard},
      {"llama3", R"(<|python_tag|>{"type": "function", "name": "f", "parameters": {"x": 1}})",
       R"({"x": 1})"},
      {"mistral", "[TOOL_CALLS]f[ARGS]" + kHard, kHard},
      {"mistral", R"([TOOL_CALLS]f{"x":true})", R"({"x":true})"},
      {"mistral_list", R"([TOOL_CALLS][{"name": "f", "arguments": )" + kHard + "}]", kHard},
      {"mistral_list", R"([TOOL_CALLS] [{"name": "f", "arguments": {"x": null}}])",
       R"({"x": null})"},
      {"granite3", R"(<|tool_call|>[{"name": "f", "arguments": )" + kHard + "}]", kHard},
      {"functiongemma",
       "<start_function_call>call:f{a:<escape>x \"y\"\n<b> <<end_function_call>ä<escape>,n:-1.5,"
       "o:{k:true,<escape>two words<escape>:None},l:[<escape>p<escape>,2]}<end_function_call>",
       R"({"a":"x \"y\"\n<b> <<end_function_call>ä","n":-1.5,"o":{"k":true,"two words":null},)"
       R"("l":["p",2]})"},
      {"gemma4", R"(<|tool_call>call:f{a:<|"|>it's "<|"|>,b:{}}<tool_call|>)",
       R"({"a":"it's \"","b":{}})"},
      {"lfm2",
       R"(<|tool_call_start|>[f(a="it's \"so\" \x41\u00e4\U0001F600\q", b='<|tool_call_end|>', )"
       R"(c=[1, True, None], d={"k": {'l': 0.5}})]<|tool_call_end|>)",
       R"({"a":"it's \"so\" \u0041\u00e4\ud83d\ude00\\q","b":"<|tool_call_end|>",)"
       R"("c":[1,true,null],"d":{"k":{"l":0.5}}})"},
      {"lfm2", "<|tool_call_start|>[f()]<|tool_call_end|>", "{}"},
      {"lfm2", R"(<|tool_call_start|>[{"name": "f", "arguments": {}}]<|tool_call_end|>)", "{}"},
      {"gpt_oss", "<|channel|>" + harmony + kHard + "<|call|>", kHard},
      {"gpt_oss", R"( to=functions.f<|channel|>commentary json<|message|>{"x":1}<|call|>)",
       R"({"x":1})"},
  };
}

inline Parts call(const std::string& arguments, int index = 0, const std::string& name = "f") {
  const std::string i = std::to_string(index);
  return {"call " + i + " " + name, "arguments " + arguments, "end " + i};
}

}  // namespace tapegrad::data
