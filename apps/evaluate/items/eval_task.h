#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/base/option_schema.h"
#include "tapegrad/data/chat/chat_template.h"
#include "tapegrad/data/jinja/internal/template.h"
#include "tapegrad/data/tokenize/tokenizer.h"

namespace tapegrad::evaluation {

// What a model does with an item, by the names of lm-evaluation-harness: it chooses one of several
// texts; says how likely a text is; or writes one.
enum class OutputType { multiple_choice, loglikelihood, generate_until };
inline constexpr std::string_view kOutputTypes[] = {"multiple_choice", "loglikelihood",
                                                    "generate_until"};
inline std::span<const std::string_view> names_of(OutputType) { return kOutputTypes; }

// Where examples come from, by the names of lm-evaluation-harness: drawn from all, or the first
// ones.
enum class FewshotSampler { drawn, first_n };
inline constexpr std::string_view kFewshotSamplers[] = {"default", "first_n"};
inline std::span<const std::string_view> names_of(FewshotSampler) { return kFewshotSamplers; }

// An item of a task, as a model sees it. docs/evaluation.md has the format of tasks.
struct Item {
  std::string where;                       // "val.jsonl, line 3"
  std::int64_t line = 0;                   // of the file
  std::string fingerprint = {};            // of that line
  std::optional<Json> id = {};             // the item's own, if it has one
  std::vector<std::string> contexts = {};  // one of all choices, or one of each
  std::string delimiter = " ";             // between context and choice
  std::vector<std::string> choices = {};   // but of multiple_choice, the target alone
  std::size_t right = 0;                   // of the choices
  std::string answer = {};                 // of generate_until: what a filter should give
  // The context is all that a chat template writes: nothing of the tokenizer's stands before it.
  bool chat = false;
  // Of a chat, bytes of each context that are letters: see data::RenderedChat. Empty: none.
  std::vector<std::vector<std::size_t>> letters = {};
  std::string question = {};  // of a chat: the fingerprint of what its template was given

  const std::string& context(std::size_t choice) const {
    return contexts[contexts.size() == 1 ? 0 : choice];
  }
  std::span<const std::size_t> letters_of(std::size_t choice) const {
    if (letters.empty()) return {};
    return letters[letters.size() == 1 ? 0 : choice];
  }
};

// A template of a task: `key` is the one of the task's file, `place` names file and key.
class TaskTemplate {
 public:
  TaskTemplate(std::string place, const std::string& macros, const std::string& source);
  // Error: data::jinja::TemplateError, with `where` and the place.
  std::string render(const std::string& where, const Json& doc) const;

 private:
  std::string place_;
  data::jinja::Template template_;
};

// Turns lines of a JSON-lines file into items, as a small JSON file says.
struct Task {
  std::string name;
  std::string place;                               // of its file, for messages
  std::optional<std::filesystem::path> file = {};  // none of a task that the program brings along
  OutputType output = OutputType::multiple_choice;
  std::vector<TaskTemplate> texts = {};    // one for all choices, or one for each
  std::vector<TaskTemplate> choices = {};  // one for each, or a single one that gives a JSON list
  bool lists_choices = false;              // the latter
  std::vector<TaskTemplate> target = {}, description = {};  // one each; of the latter, perhaps none
  std::string target_delimiter = " ", fewshot_delimiter = "\n\n";
  std::int64_t num_fewshot = 0;
  std::optional<std::string> fewshot_same = {};  // examples have the item's value of this key
  FewshotSampler sampler = FewshotSampler::drawn;
  bool fewshot_spare = false;  // one more is drawn than shown, even from another file
  std::optional<std::filesystem::path> items = {}, fewshot_items = {};

  // Of generate_until. A text ends before the first of `until`, or with max_gen_toks tokens. Each
  // filter, a template of `output`, finds the answer in it.
  std::vector<std::string> until = {};
  std::int64_t max_gen_toks = 256;
  std::vector<TaskTemplate> answer = {};  // none: the target
  std::vector<std::pair<std::string, TaskTemplate>> filters = {};
  bool trims_answer = false;  // blanks around an answer do not count, as for the usual filter
};

// The names of the tasks that the program brings along.
std::vector<std::string_view> task_names();
// One of these, or the task of a file. Errors name the file and the key.
Task open_task(const std::string& name_or_file);

// How items become conversations: their text, with the examples before it, is what a user says, and
// the description what the system says.
struct ChatFormat {
  data::ChatTemplate chat_template;
  bool fewshot_as_multiturn = false;  // each example is a question of the user and an answer
  // Of the model, whose special tokens no message spells: see data::render_chat(). None: they may.
  std::optional<data::Tokenizer> tokenizer = {};
  // The template refuses the system's messages: the description begins the first one of the user.
  bool system_in_user = false;
};
// True if a template refuses a conversation because of its system's message, as Gemma 2's does.
bool refuses_system(const data::ChatTemplate& chat_template);

// The first `limit` items of the task, with their examples before them, in the form of a chat if
// there is one. Errors name file, line and the task's key.
std::vector<Item> read_items(const Task& task, std::int64_t limit,
                             const std::optional<ChatFormat>& chat = {});

}  // namespace tapegrad::evaluation
