#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/base/cxx20.h"
#include "tapegrad/data/jinja/render_limits.h"

namespace tapegrad::data {

// How a conversation becomes the text that a model was trained on: the Jinja template of
// tokenizer_config.json, chat_template.jinja or GGUF, executed as transformers' apply_chat_template
// does it.

// One message of a conversation, as templates see it: {"role": role, "content": content}.
struct Message {
  std::string role = {};
  std::string content = {};
  // A message that says more (tool_calls, reasoning_content, name, a content in parts), as the text
  // of its whole JSON object. If it is not empty, templates see this object alone, its members in
  // their order.
  std::string json = {};
};
// The message that the text of a JSON object is. `content` is empty if it is not a text there.
// Error if it is no object with a text `role`.
Message message_of_json(std::string_view object);
// The JSON object that templates see.
std::string json_of_message(const Message& message);
// The message with another content.
Message with_content(Message message, std::string content);

struct Conversation {
  std::vector<Message> messages = {};
  std::string tools = {};  // a list of descriptions of functions, as the text of JSON; "": none
  // Documents to answer from, as the text of a JSON list; "": none.
  std::string documents = {};
};

// Bytes [begin, end) of a text.
struct TextSpan {
  std::size_t begin = 0, end = 0;
  bool operator==(const TextSpan&) const = default;
};

struct RenderedChat {
  std::string text = {};
  // The parts that the model writes, by the template: its {% generation %} blocks, ascending and
  // apart. transformers returns the same as the mask of the assistant's tokens.
  std::vector<TextSpan> generated = {};
  // Of render_chat(): bytes of the text that are letters, ascending. A special token that covers
  // one of them is what a message spells. See Tokenizer::encode_with_letters.
  std::vector<std::size_t> letters = {};
};

// "bos_token": "<s>" and so on: variables of every template. "bos_token" and "eos_token" are empty
// texts where the model has none.
using SpecialTokenTexts = std::map<std::string, std::string>;

// A template, parsed once. A handle, cheap to copy; rendering is thread-safe.
class ChatTemplate {
 public:
  // Error, naming the line, for what is not a template, or asks for what templates may not do
  // (include, import, extends).
  explicit ChatTemplate(std::string source, SpecialTokenTexts special_tokens = {});
  // ChatML, for models that have no template: "<|im_start|>role\ncontent<|im_end|>\n" for each
  // message. Its generation blocks are the assistant's contents with their <|im_end|>.
  static ChatTemplate chatml();

  // The text of a conversation. `add_generation_prompt`: with what stands before the model's next
  // answer. `variables`: the text of a JSON object with more variables, such as
  // {"enable_thinking": false}; they hide others of the same name. Errors: what the template
  // itself refuses by raise_exception, with its words; any other error of the template, with its
  // line; a limit is exceeded.
  RenderedChat render(const Conversation& conversation, bool add_generation_prompt,
                      std::string_view variables = {}, const RenderLimits& most = {}) const;

  // True if the template has {% generation %} blocks.
  bool marks_generations() const;
  // True if the template reads this variable, such as "tools" or "enable_thinking".
  bool reads(std::string_view variable) const;
  const std::string& source() const;

  // A copy whose messages may spell special tokens, if `reads`: their texts stand for them there,
  // as in what the template writes itself. See render_chat().
  ChatTemplate with_special_in_messages(bool reads) const;
  bool special_in_messages() const { return special_in_messages_; }

 private:
  struct Parsed;
  std::shared_ptr<const Parsed> parsed_;
  bool special_in_messages_ = false;
};

}  // namespace tapegrad::data
