// Renders conversations with a chat template, for a comparison with transformers: see
// compare_chats.py.
// usage: render_chats TEMPLATE CASES.jsonl RESULTS.jsonl
// A case is {"messages": […], "tools": […] or null, "documents": …, "add_generation_prompt": B,
// "special_tokens": {…}, "variables": {…}}; a result {"text": T, "generated": [[begin, end], …]} or
// {"error": E}.

#include <chrono>
#include <fstream>
#include <iostream>
#include <sstream>

#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/data/chat/chat_template.h"

using namespace tapegrad;

namespace {

std::string contents_of(const char* path) {
  std::ifstream file(path, std::ios::binary);
  check(file.good(), "{}: cannot be read", path);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

Json result_of(const std::string& source, const Json& chat, double& seconds) {
  data::SpecialTokenTexts tokens;
  for (const auto& [name, text] : chat["special_tokens"].items()) {
    tokens.emplace(name, text.get<std::string>());
  }
  data::Conversation conversation;
  for (const Json& message : chat["messages"]) {
    conversation.messages.push_back({.json = json_text(message)});
  }
  if (!chat["tools"].is_null()) conversation.tools = json_text(chat["tools"]);
  if (!chat["documents"].is_null()) conversation.documents = json_text(chat["documents"]);
  try {
    const data::ChatTemplate chat_template(source, tokens);
    const auto begin = std::chrono::steady_clock::now();
    const data::RenderedChat rendered = chat_template.render(
        conversation, chat["add_generation_prompt"].get<bool>(), json_text(chat["variables"]));
    seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    Json spans = Json::array();
    for (const data::TextSpan& span : rendered.generated) spans.push_back({span.begin, span.end});
    return {{"text", rendered.text}, {"generated", spans}};
  } catch (const Error& error) {
    return {{"error", error.what()}};
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return std::cerr << "usage: render_chats TEMPLATE CASES RESULTS\n", 2;
  try {
    const std::string source = contents_of(argv[1]);
    std::istringstream cases(contents_of(argv[2]));
    std::ofstream results(argv[3], std::ios::binary);
    double seconds = 0;
    std::size_t count = 0;
    for (std::string line; std::getline(cases, line); ++count) {
      results << json_text(result_of(source, parse_json<Json>(line, 64), seconds)) << '\n';
    }
    fmt::print("{} conversations, {:.1f} µs each\n", count,
               seconds * 1e6 / static_cast<double>(count));
  } catch (const Error& error) {
    return std::cerr << error.what() << '\n', 1;
  }
}
