#include <algorithm>
#include <cstddef>
#include <utility>

#include "tapegrad/apps/evaluate/items/examples.h"
#include "tapegrad/base/internal/fingerprint.h"
#include "tapegrad/data/chat/render_chat.h"

namespace tapegrad::evaluation {
namespace {

std::string text_of(const Task& task, const std::vector<const Item*>& examples) {
  std::string text;
  for (const Item* e : examples) {
    text += e->context(e->right) + task.target_delimiter + e->choices[e->right] +
            task.fewshot_delimiter;
  }
  return text;
}

// What the template writes up to the model's answer.
data::RenderedChat conversation_of(const Task& task, const ChatFormat& chat,
                                   const std::string& description,
                                   const std::vector<const Item*>& examples,
                                   const std::string& context) {
  data::Conversation conversation;
  const auto say = [&](const char* role, const std::string& content) {
    conversation.messages.push_back({.role = role, .content = content});
  };
  if (!description.empty() && !chat.system_in_user) say("system", description);
  if (chat.fewshot_as_multiturn) {
    for (const Item* e : examples) {
      say("user", e->context(e->right));
      say("assistant", e->choices[e->right]);
    }
    say("user", context);
  } else {
    say("user", text_of(task, examples) + context);
  }
  if (chat.system_in_user) conversation.messages.front().content.insert(0, description);
  return chat.tokenizer ? data::render_chat(chat.chat_template, *chat.tokenizer, conversation, true)
                        : chat.chat_template.render(conversation, true);
}

// Puts description and examples before the contexts of an item.
void begin_contexts(const Task& task, ItemLine& line, const std::vector<const Item*>& examples,
                    const std::optional<ChatFormat>& chat) {
  Item& item = line.item;
  std::string description;
  for (const TaskTemplate& t : task.description) description += t.render(item.where, line.doc);
  item.chat = chat.has_value();
  if (item.chat) {
    item.delimiter = "";  // the template ends where an answer begins
    item.question = fingerprint(json_text(
        Json{description, text_of(task, examples), item.contexts, chat->fewshot_as_multiturn}));
  }
  const std::string beginning = chat ? "" : description + text_of(task, examples);
  std::vector<std::vector<std::size_t>> letters;  // of each context
  for (std::string& context : item.contexts) {
    if (!chat) {
      context.insert(0, beginning);
      continue;
    }
    try {
      data::RenderedChat whole = conversation_of(task, *chat, description, examples, context);
      context = std::move(whole.text);
      letters.push_back(std::move(whole.letters));
    } catch (const Error& error) {
      fail("{}: the chat template: {}", item.where, error.what());
    }
  }
  const auto is_empty = [](const auto& places) { return places.empty(); };
  if (!std::all_of(letters.begin(), letters.end(), is_empty)) item.letters = std::move(letters);
}

}  // namespace

bool refuses_system(const data::ChatTemplate& chat_template) {
  const auto accepts = [&](const std::vector<data::Message>& messages) {
    try {
      chat_template.render({messages}, true);
      return true;
    } catch (const Error&) {
      return false;
    }
  };
  const data::Message system{"system", "1"}, user{"user", "2"};
  return !accepts({system, user}) && accepts({user});
}

std::vector<Item> read_items(const Task& task, std::int64_t limit,
                             const std::optional<ChatFormat>& chat) {
  check(task.items.has_value(), "{}: it names no 'items': --items FILE does", task.place);
  Examples examples(task);
  std::vector<Item> items;
  for_each_line(*task.items, [&](std::string_view text, std::int64_t number) {
    ItemLine line = item_line(task, *task.items, text, number);
    begin_contexts(task, line, examples.shown(line), chat);
    items.push_back(std::move(line.item));
    return std::ssize(items) < limit;
  });
  check(!items.empty(), "{}: there is no item", task.items->string());
  return items;
}

}  // namespace tapegrad::evaluation
