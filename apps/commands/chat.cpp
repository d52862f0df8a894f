#include "tapegrad/apps/chat/talk.h"
#include "tapegrad/apps/cli/command.h"
#include "tapegrad/apps/cli/command_line.h"
#include "tapegrad/apps/cli/compute.h"
#include "tapegrad/apps/cli/run_main.h"
#include "tapegrad/apps/sample/held_types.h"
#include "tapegrad/apps/sample/sampling_options.h"
#include "tapegrad/apps/sample/speculation.h"
#include "tapegrad/base/file.h"
#include "tapegrad/base/terminal.h"
#include "tapegrad/base/text/utf8.h"
#include "tapegrad/nn/generation/internal/broken_logits.h"
#include "tapegrad/run/corpus/text_data.h"
#include "tapegrad/run/models/chat_template_of.h"

namespace tapegrad {
namespace {

constexpr std::int64_t kMostFileBytes = std::int64_t{16} << 20;

struct ChatCall {
  std::string model, checkpoint{run::kLast}, weights{run::kStored};
  std::vector<std::string> words;
  std::vector<std::string> prompts;
  std::optional<std::string> adapter, prompt_file, template_file, template_name, tools_file;
  bool special_in_messages = false;
  chat::ChatOptions chat;
  sampling::SpeculationOptions speculation;
  cli::ComputeOptions compute;
};

std::optional<ChatCall> parse_chat(const cli::Call& call) {
  ChatCall o;
  nn::GenerateOptions& generate = o.chat.sample.generate;
  cli::CommandLine cli(
      call.name, "Talks with a GPT: messages from stdin, one on each line, or from --prompt.");
  cli.words(o.words, "MODEL PROMPT", "the same as --model MODEL --prompt PROMPT");
  cli.group("Conversation");
  cli("model", o.model, "a run folder, or a model of another program", {.value = "PATH"});
  cli.alias("-m", "--model");
  cli("checkpoint", o.checkpoint, "weights to use: last, best, or a step that the run keeps",
      {.value = "last|best|STEP"});
  cli("adapter", o.adapter,
      "LoRA adapters beside the model's weights: a folder of PEFT's, a GGUF, or a run with "
      "--lora-rank",
      {.value = "PATH"});
  cli.choice("weights", o.weights, run::quantized_weights(),
             "how weights lie in memory: as the files have them, or converted to a type");
  cli("prompt", o.prompts,
      "message to answer, in place of stdin; may be repeated, in one conversation",
      {.value = "TEXT"});
  cli.alias("-p", "--prompt");
  cli.one_value_each("--prompt");
  cli("prompt_file", o.prompt_file, "read the message from a file; - is all of stdin",
      {.value = "FILE|-"});
  cli("system", o.chat.system,
      "system message, before the conversation; @FILE reads it from a file",
      {.value = "TEXT|@FILE"});
  cli("tools", o.tools_file,
      "JSON list of functions that the model may call, as requests to serve have them; the "
      "message behind a call is what the function returned",
      {.value = "FILE"});
  cli("chat_template", o.template_file,
      "Jinja template of conversations, in place of the model's own", {.value = "FILE"});
  cli("template_name", o.template_name, "which template of a model that has several",
      {.value = "NAME"});
  cli("template_variables", o.chat.variables,
      "a JSON object with what the template may read, such as {\"enable_thinking\": false}",
      {.value = "JSON"});
  cli("special_in_messages", o.special_in_messages,
      "let messages spell special tokens such as <|im_end|>, which are text otherwise");
  cli("max_new_tokens", generate.max_new_tokens, "most tokens of an answer",
      {.least = 1, .most = 1e9});
  cli.alias("-n", "--max-new-tokens");
  cli("stop", o.chat.sample.stops, "end an answer before one of these strings; \\n is a line break",
      {.value = "TEXT…"});
  cli.group("Choice of tokens");
  sampling::SamplingOptions sampling{generate};
  cli.options(sampling);
  cli.alias("--temp", "--temperature");
  cli("greedy", generate.greedy, "always choose the likeliest token");
  cli("seed", o.chat.seed, "equal seeds give equal answers");
  cli.options(o.speculation);
  cli("context", generate.context,
      "of a conversation longer than the model's block_size, exact: the model reads all of its "
      "last part again for each token; shift: it keeps the first 4 tokens and drops the older half "
      "of the others when it is full");
  cli.options(o.compute);
  cli.example("tapegrad chat Qwen3-0.6B", "a conversation; /help tells of commands");
  cli.example("tapegrad chat model.gguf --system 'Answer in one sentence.' --temp 0.3",
              "with a system's message");
  cli.example("tapegrad chat runs/helper --prompt 'What is a tape?' --greedy",
              "one answer, on stdout");
  if (cli.parse_or_print(call.argc, call.argv)) return std::nullopt;
  cli::take_model(o.model, o.words);
  if (o.words.size() > 1) {
    cli::usage_error(
        "only one message may follow the model, and '{}' is a second one: quote a message of "
        "several words, and give each of several messages by -p",
        o.words[1]);
  }
  o.prompts.insert(o.prompts.end(), o.words.begin(), o.words.end());
  if (!o.prompts.empty() && o.prompt_file) {
    cli::usage_error("--prompt and --prompt-file exclude each other");
  }
  for (const std::string& prompt : o.prompts) {
    if (prompt.empty()) cli::usage_error("--prompt: there is nothing to answer");
  }
  if (o.template_file && o.template_name) {
    cli::usage_error("--chat-template and --template-name exclude each other");
  }
  for (std::string& stop : o.chat.sample.stops) {
    stop = run::unescaped(stop);
    if (stop.empty()) cli::usage_error("--stop: an empty text would end everything");
  }
  sampling::settle_zeros(generate);
  cli::as_usage([&] {
    sampling.read_lists();
    o.speculation.validate();
    o.speculation.apply(generate);
    generate.validate();
  });
  cli::use_compute(o.compute);
  return o;
}

// None: they come from stdin, one on each line.
std::vector<std::string> prompts_of(const ChatCall& o) {
  if (!o.prompt_file) return o.prompts;
  const bool from_stdin = *o.prompt_file == "-";
  const std::string text =
      from_stdin ? read_stdin(kMostFileBytes) : read_file(*o.prompt_file, kMostFileBytes);
  const std::string_view message = without_byte_order_mark(text);
  check(!message.empty(), "{}: there is nothing to answer",
        from_stdin ? "stdin" : *o.prompt_file + ": the file is empty");
  return {std::string(message)};
}

int chat_with(ChatCall& o) {
  if (o.chat.system.starts_with('@')) {
    o.chat.system = read_file(o.chat.system.substr(1), kMostFileBytes);
  }
  if (o.tools_file) o.chat.tools = chat::tools_of_file(*o.tools_file);
  std::optional<std::string> source;
  if (o.template_file) source = read_file(*o.template_file, kMostFileBytes);
  const std::vector<std::string> prompts = prompts_of(o);
  run::OpenedModel opened = run::open_model(o.model, o.checkpoint);
  sampling::DraftModel draft;
  draft.open(o.speculation, opened, o.model);
  if (o.adapter) opened = run::with_adapter(std::move(opened), *o.adapter);
  const run::TextModel model = run::load_quantized(std::move(opened), o.weights);
  draft.load();
  o.speculation.apply(o.chat.sample.generate, draft.gpt());
  sampling::note_other_types(run::quantized_type(o.weights), model.params);
  if (source) {
    o.chat.chat_template = data::ChatTemplate(
        std::move(*source), run::special_token_texts(model.settings, model.tokenizer));
  } else if (o.template_name) {
    o.chat.chat_template = run::chat_template_of(model.settings, model.tokenizer, *o.template_name);
  } else {
    o.chat.chat_template = run::chat_template_or_chatml(model.settings, model.tokenizer);
  }
  if (o.chat.chat_template) {
    o.chat.chat_template = o.chat.chat_template->with_special_in_messages(o.special_in_messages);
  } else {
    check(o.chat.system.empty(), "{}: the model has no chat template to write --system with",
          o.model);
    check(o.chat.tools.empty(), "{}: the model has no chat template to write --tools with",
          o.model);
    print_error(
        fmt::format("{} has no chat template: what is said is continued as text.\n", o.model));
  }
  chat::ChatSession session(model, std::move(o.chat));
  return nn::naming_model(o.model, [&] {
    return prompts.empty() ? chat::talk(session) : chat::answer(session, prompts);
  });
}

int run_chat(const cli::Call& call) {
  return cli::run_main(call.name, [&] {
    auto options = parse_chat(call);
    return options ? chat_with(*options) : 0;
  });
}

const cli::Command kChatCommand("chat", cli::CommandGroup::use, "talk with a GPT", run_chat);

}  // namespace
}  // namespace tapegrad
